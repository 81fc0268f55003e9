//! Credentials in the configuration of a server: values that must not appear in results, logs and events.

use url::Url;

/// Returns the values of a map that are credentials by their names: environment variables, parameters of a URL.
pub(crate) fn named(values: impl Iterator<Item = (String, String)>) -> Vec<String> {
    values.filter(|(name, _)| is_credential(name)).map(|(_, value)| value).collect()
}

/// Returns the credentials in the headers of a server. All headers count but a few, because servers choose their names.
pub(crate) fn in_headers(headers: impl Iterator<Item = (String, String)>) -> Vec<String> {
    const HARMLESS: [&str; 6] =
        ["accept", "accept-language", "content-type", "origin", "referer", "user-agent"];
    let secret = headers.filter(|(name, _)| !HARMLESS.iter().any(|known| name.eq_ignore_ascii_case(known)));
    // `Bearer X`: the token alone is secret, too.
    secret
        .flat_map(|(_, value)| {
            let token = value.rsplit(' ').next().unwrap_or_default().to_owned();
            [value, token]
        })
        .collect()
}

/// Returns the credentials in a URL: the password, and parameters.
pub(crate) fn in_url(url: &Url) -> Vec<String> {
    let pairs = url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned()));
    let mut found = named(pairs);
    found.extend(url.password().map(str::to_owned));
    found
}

/// Returns a URL without the parts that may contain a credential of any name: user, password, query and fragment.
#[must_use]
pub fn without_credentials(url: &Url) -> Url {
    let mut url = url.clone();
    // They fail for a URL that cannot have a user, which then has none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Whether a name is that of a credential.
pub(crate) fn is_credential(name: &str) -> bool {
    const PARTS: [&str; 9] =
        ["TOKEN", "SECRET", "PASSW", "PASSPHRASE", "APIKEY", "AUTH", "CREDENTIAL", "COOKIE", "BEARER"];
    let name = name.to_ascii_uppercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    PARTS.iter().any(|part| name.contains(part)) || words.any(|word| matches!(word, "KEY" | "PAT" | "PWD"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_recognised_by_name() {
        for name in ["GITHUB_TOKEN", "api-key", "OPENAI_API_KEY", "DB_PASSWORD", "X_AUTH", "GH_PAT", "apikey"]
        {
            assert!(is_credential(name), "{name}");
        }
        for name in ["PATH", "NODE_ENV", "HOME", "KEYBOARD", "PATTERN", "PROJECT_DIR"] {
            assert!(!is_credential(name), "{name}");
        }
    }

    #[test]
    fn headers_and_urls_are_searched() {
        let headers = [("Authorization", "Bearer abc"), ("X-Team", "blue"), ("Accept", "text/html")];
        let found = in_headers(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        assert_eq!(found, ["Bearer abc", "abc", "blue", "blue"]);
        let url = Url::parse("https://me:pass@x.example/mcp?api_key=k%31&page=2").unwrap();
        assert_eq!(in_url(&url), ["k1", "pass"]);
        assert_eq!(without_credentials(&url).as_str(), "https://x.example/mcp");
    }
}
