//! Pages that are fetched or refused.

use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::tools::interrupted;
use crate::tools::testing::Bench;
use crate::tools::web::{Fetch, FetchError};

/// Pages by their URL.
struct Pages(HashMap<&'static str, FetchedPage>);

impl Fetch for Pages {
    fn get<'a>(
        &'a self,
        url: &'a str,
        limit: usize,
        reach: &'a AllowedAddresses,
    ) -> Working<'a, Result<FetchedPage, FetchError>> {
        assert_eq!(limit, LARGEST_PAGE);
        Box::pin(async move {
            let address = IpAddr::from([10, 0, 0, 1]);
            match self.0.get(url) {
                Some(_) if url.contains("intranet") && !allows(reach, address) => {
                    Err(FetchError::Private(vec![address]))
                }
                Some(page) => Ok(page.clone()),
                None => Err(FetchError::Failed(format!("no route to {url}"))),
            }
        })
    }
}

fn allows(reach: &AllowedAddresses, address: IpAddr) -> bool {
    match reach {
        AllowedAddresses::Public(also) => also.contains(&address),
        AllowedAddresses::Anywhere => true,
    }
}

fn bench() -> Bench {
    let page = |status, kind: &str, body: &str| FetchedPage {
        status,
        content_type: Some(kind.into()),
        location: None,
        body: body.into(),
    };
    let moved = |to: &str| FetchedPage { status: 302, location: Some(to.into()), ..FetchedPage::default() };
    Bench::with_web(Arc::new(Pages(HashMap::from([
        ("https://a.example/", page(200, "text/html; charset=utf-8", "<h1>Hi</h1><p>there</p>")),
        ("https://a.example/data", page(200, "application/json", "{\"a\":1}")),
        ("https://a.example/long", page(200, "text/plain", &"äbcdefghij".repeat(1000))),
        ("https://a.example/image", page(200, "image/png", "PNG")),
        (
            "https://a.example/old",
            FetchedPage { body: b"gr\xfc\xdfe".to_vec(), ..page(200, "text/plain; charset=ISO-8859-1", "") },
        ),
        ("https://a.example/none", page(200, "text/plain", "")),
        ("https://a.example/gone", page(404, "text/html", "<p>Not here</p>")),
        ("https://a.example/moved", moved("/data")),
        ("http://a.example/tls", moved("https://a.example/data")),
        ("https://a.example/port", moved("https://a.example:8443/data")),
        ("https://a.example/plain", moved("http://a.example/data")),
        ("https://a.example/password", moved("https://me:secret@a.example/data")),
        ("https://intranet.example/", page(200, "text/plain", "behind the firewall")),
        ("http://intranet/", page(200, "text/plain", "behind the firewall")),
        ("https://a.example/away", moved("https://evil.example/x")),
        ("https://a.example/file", moved("file:///etc/passwd")),
        ("https://a.example/loop", moved("/loop")),
    ]))))
}

#[tokio::test]
async fn pages_are_fetched() {
    let bench = bench();
    for (arguments, expected) in [
        (json!({"url": "https://a.example"}), "# Hi\n\nthere"),
        (json!({"url": "https://a.example/", "raw": true}), "<h1>Hi</h1><p>there</p>"),
        (json!({"url": "https://a.example/moved"}), "{\"a\":1}"),
        (json!({"url": "https://a.example/old"}), "grüße"),
        (json!({"url": "https://a.example/none"}), "The page is empty."),
        (
            json!({"url": "https://a.example/long", "max_length": 3, "start_index": "10"}),
            "äbc\n\n[Characters 10 to 13 of 10000. Call again with start_index 13 to read on.]",
        ),
        (json!({"url": "https://a.example/long", "start_index": 9998}), "ij"),
    ] {
        assert_eq!(
            bench.run(&WebFetch, arguments.clone()).await,
            ToolResult::success(expected),
            "{arguments}"
        );
    }
    let long = bench.run(&WebFetch, json!({"url": "https://a.example/long"})).await.text_result_for_llm;
    assert_eq!(long.split("\n\n[").next().unwrap().chars().count(), DEFAULT_LENGTH);
}

#[tokio::test]
async fn failed_fetch_is_explained() {
    let bench = bench();
    for (arguments, hint) in [
        (json!({}), "missing field `url`"),
        (json!({"url": "a.example"}), "url: "),
        (json!({"url": "file:///etc/passwd"}), "must begin with http"),
        (json!({"url": "https://user:secret@a.example/"}), "user name or a password"),
        (json!({"url": "https://b.example/"}), "Could not fetch https://b.example/: no route"),
        (json!({"url": "https://a.example/image"}), "not text (its type is image/png)"),
        (json!({"url": "https://a.example/gone"}), "status 404. The answer begins:\nNot here"),
        (json!({"url": "https://a.example/away"}), "another origin: https://evil.example/x"),
        (json!({"url": "https://a.example/port"}), "another origin: https://a.example:8443/data"),
        (json!({"url": "https://a.example/plain"}), "another origin: http://a.example/data"),
        (json!({"url": "http://a.example/tls"}), "another origin: https://a.example/data"),
        (json!({"url": "https://a.example/password"}), "another origin"),
        (json!({"url": "https://a.example/file"}), "not a web page"),
        (json!({"url": "https://a.example/loop"}), "Gave up after 5 redirects"),
        (json!({"url": "https://a.example/data", "start_index": 7}), "has 7 characters"),
    ] {
        let result = bench.run(&WebFetch, arguments).await;
        assert_eq!(result.result_type, baton_protocol::tool::ResultType::Failure);
        assert!(result.text_result_for_llm.contains(hint), "{}", result.text_result_for_llm);
    }
}

#[tokio::test]
async fn request_names_the_normalised_url() {
    let Prepared::Needs(PermissionRequest::Url { url, .. }) =
        bench().prepare(&WebFetch, json!({"url": " https://A.example/x y"})).await
    else {
        panic!("fetching needs permission")
    };
    assert_eq!(url, "https://a.example/x%20y");
}

/// Never responds.
struct Silent;

impl Fetch for Silent {
    fn get<'a>(
        &'a self,
        _: &'a str,
        _: usize,
        _: &'a AllowedAddresses,
    ) -> Working<'a, Result<FetchedPage, FetchError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn cancelled_fetch_ends() {
    let bench = Bench::with_web(Arc::new(Silent));
    bench.context.cancel.cancel();
    assert_eq!(bench.run(&WebFetch, json!({"url": "https://a.example/"})).await, interrupted());
}

#[tokio::test]
async fn name_with_private_address_is_requested_each_time() {
    let mut bench = bench();
    let arguments = json!({"url": "https://intranet.example/"});
    assert!(matches!(bench.prepare(&WebFetch, arguments.clone()).await, Prepared::Needs(_)));
    let result = bench.run(&WebFetch, arguments.clone()).await.text_result_for_llm;
    assert!(result.contains("intranet.example leads into the private network (10.0.0.1)"), "{result}");

    bench.context.call = "call-2".into();
    let result = bench.run(&WebFetch, arguments.clone()).await.text_result_for_llm;
    assert!(result.contains("private network"), "the request of this call named no address: {result}");

    bench.context.call = "call-3".into();
    let Prepared::NeedsEachTime(PermissionRequest::Url { intention, .. }) =
        bench.prepare(&WebFetch, arguments.clone()).await
    else {
        panic!("no grant covers it")
    };
    assert!(intention.contains("10.0.0.1"), "{intention}");
    assert_eq!(bench.run(&WebFetch, arguments).await, ToolResult::success("behind the firewall"));
}

#[tokio::test]
async fn internal_name_may_reach_any_address() {
    let result = bench().run(&WebFetch, json!({"url": "http://intranet/"})).await;
    assert_eq!(result, ToolResult::success("behind the firewall"));
}

#[tokio::test]
async fn redirect_to_another_page_is_refused_where_rules_name_pages() {
    let mut bench = bench();
    bench.context.exact_pages = true;
    let result = bench.run(&WebFetch, json!({"url": "https://a.example/moved"})).await;
    assert!(
        result.text_result_for_llm.contains("redirects to another page"),
        "{}",
        result.text_result_for_llm
    );
}
