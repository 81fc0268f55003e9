//! Pages and their Markdown.

use proptest::prelude::*;

use super::*;

#[test]
fn elements_become_markdown() {
    for (html, expected) in [
        ("<h1>Title</h1><p>One <b>two</b>\n three.</p><p>Four</p>", "# Title\n\nOne **two** three.\n\nFour"),
        ("a<br>b<div>c</div>d", "a\nb\n\nc\n\nd"),
        ("<ul><li>one</li><li>two<ul><li>deep</li></ul></li></ul>end", "- one\n- two\n  - deep\n\nend"),
        ("<ol><li><p>a</p></li><li>b</li></ol>", "1. a\n2. b"),
        ("see <a href='/x?a=1&amp;b=2'>the <i>page</i></a>.", "see [the *page*](/x?a=1&b=2)."),
        ("<a href=\"#top\">up</a><a href=/y></a>", "up"),
        (
            "<pre><code>fn x() {\n    y &lt; z\n}</code></pre>after",
            "```\nfn x() {\n    y < z\n}\n```\n\nafter",
        ),
        ("use <code>x  y</code> now", "use `x y` now"),
        ("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>", "| a | b\n| 1 | 2"),
        ("<blockquote><p>said</p><p>so</p></blockquote>ok", "> said\n>\n> so\n\nok"),
        ("<img src=x alt='a cat'> here", "[image: a cat] here"),
        ("<head><title>no</title><nav><a href=x>no</a><nav>no</nav>no</nav>yes", "yes"),
        ("<form><p>yes</form>", "yes"),
        ("<a href=/a>one <a href=/b>two</a></a>", "[one](/a) [two](/b)"),
        ("<script>if (a < b) { '</div>' }</script>yes<style>p > q {}</style>", "yes"),
        ("1 < 2 &amp;&amp; 3 &gt; 2 &#65;&#x42; &unknown; &", "1 < 2 && 3 > 2 AB &unknown; &"),
        ("<!-- <p>no</p> --><!DOCTYPE html>yes", "yes"),
        ("<p title='a > b'>yes</p>", "yes"),
        ("<p title='never closed>yes</p>", "yes"),
        ("", ""),
    ] {
        assert_eq!(to_markdown(html), expected, "{html}");
    }
}

proptest! {
    #[test]
    fn any_page_is_converted(html in "[<>/a-z =\"'&;#!\\-ü\n]{0,80}") {
        let _ = to_markdown(&html);
    }

    #[test]
    fn any_attributes_are_parsed(attributes in "[a-z=\"' /ü]{0,30}") {
        let _ = attribute(&attributes, "href");
    }
}

#[test]
fn deep_nesting_takes_no_stack() {
    let deep = "<div><ul><li><blockquote>".repeat(50_000) + "x";
    assert!(to_markdown(&deep).contains('x'));
}

#[test]
fn conversion_takes_linear_time() {
    let begun = std::time::Instant::now();
    for piece in
        ["<p title='", "<a href=x>y", "<nav>", "</svg><nav>", "<", "<!", "&", "<b></b", "<a href=x>y</a>"]
    {
        to_markdown(&piece.repeat(1_000_000 / piece.len()));
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
}
