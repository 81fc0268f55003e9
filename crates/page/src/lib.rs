//! The web application: its files, embedded in the program, and the routes that serve them.
//!
//! The files in `assets` are plain ES modules, CSS and HTML, which the build only compresses. All but the start page are
//! served under a directory named after the digest of all files, so that browsers keep them and a new version is never mixed
//! with an old one. All URLs are relative: the page works under any path prefix of a reverse proxy. Nothing here is secret,
//! so no route needs a login; the data comes from the API. This crate knows no session and no API.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

use std::io::Read as _;
use std::sync::OnceLock;

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

/// Content security policy of the page. Scripts and styles come from its own files only, and untrusted text can become HTML in one function
/// of the page only (`require-trusted-types-for`).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    connect-src 'self'; manifest-src 'self'; worker-src 'self'; form-action 'none'; base-uri 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types baton";

/// Stands for the directory of the files in the start page.
const DIRECTORY: &str = "@DIRECTORY@";
/// Stands for the list of modules in the start page.
const MODULES: &str = "<!-- @MODULES@ -->";

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$( ($name, include_bytes!(concat!(env!("OUT_DIR"), "/", $name))) ),*]
    };
}

/// All files but the start page, compressed. The browser loads the modules at once, in this order.
const FILES: &[(&str, &[u8])] = files![
    "main.js",
    "api.js",
    "app.js",
    "compose.js",
    "conversation.js",
    "dom.js",
    "feed.js",
    "form.js",
    "inbox.js",
    "login.js",
    "notifications.js",
    "request.js",
    "sessions.js",
    "text.js",
    "tool.js",
    "style.css",
    "icon.svg",
];
const START: &str = include_str!("../assets/index.html");
const MANIFEST: &str = include_str!("../assets/manifest.webmanifest");

/// Files beside the start page, whose addresses must not change with a version: the service worker, which controls the
/// directory that it is in, and the icons that systems store with an installed page.
const FIXED: &[(&str, &[u8])] = files!["sw.js", "icon-192.png", "icon-512.png"];

/// A file, as it is sent.
struct File {
    name: &'static str,
    kind: &'static str,
    body: Bytes,
    /// The same with gzip, unless it is too short to be worth it.
    compressed: Option<Bytes>,
    tag: HeaderValue,
}

impl File {
    /// Returns a file that was compressed by the build script.
    fn embedded(name: &'static str, compressed: &'static [u8]) -> Self {
        let mut body = Vec::new();
        // What the build script compressed can be read again; a test does.
        let _ = flate2::read::GzDecoder::new(compressed).read_to_end(&mut body);
        Self { compressed: Some(Bytes::from_static(compressed)), ..Self::plain(name, body) }
    }

    fn plain(name: &'static str, body: Vec<u8>) -> Self {
        let kind = match name.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("html") => "text/html; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("png") => "image/png",
            Some("webmanifest") => "application/manifest+json",
            _ => "application/octet-stream",
        };
        let tag = format!("\"{}\"", digest(&[&body]));
        // A digest is a valid header.
        let tag = HeaderValue::try_from(tag).unwrap_or_else(|_| HeaderValue::from_static("\"\""));
        Self { name, kind, compressed: None, body: body.into(), tag }
    }

    fn respond(&self, headers: &HeaderMap, caching: &'static str) -> Response {
        let mut common = HeaderMap::new();
        common.insert(header::ETAG, self.tag.clone());
        common.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
        common.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        common.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        if headers.get(header::IF_NONE_MATCH).is_some_and(|known| *known == self.tag) {
            return (StatusCode::NOT_MODIFIED, common).into_response();
        }
        common.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        match &self.compressed {
            Some(compressed) if accepts_gzip(headers) => {
                common.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                (common, compressed.clone()).into_response()
            }
            _ => (common, self.body.clone()).into_response(),
        }
    }

    /// Returns how many bytes a browser receives.
    fn wire_size(&self) -> usize {
        self.compressed.as_ref().unwrap_or(&self.body).len()
    }
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|encoding| {
        let (name, weight) = encoding.split_once(';').unwrap_or((encoding, ""));
        name.trim() == "gzip" && !matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
    })
}

fn digest(parts: &[&[u8]]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    URL_SAFE_NO_PAD.encode(&context.finish().as_ref()[..12])
}

/// All files, prepared for the first request.
struct Application {
    directory: String,
    start: File,
    manifest: File,
    files: Vec<File>,
    fixed: Vec<File>,
}

fn application() -> &'static Application {
    static APPLICATION: OnceLock<Application> = OnceLock::new();
    APPLICATION.get_or_init(|| {
        let all: Vec<&[u8]> = FILES.iter().flat_map(|(name, body)| [name.as_bytes(), *body]).collect();
        let directory = format!("files/{}", digest(&all));
        let modules = FILES.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".js"));
        let preloads: Vec<String> =
            modules.map(|name| format!("<link rel=\"modulepreload\" href=\"{directory}/{name}\">")).collect();
        let filled = |text: &str| {
            text.replace(MODULES, &preloads.join("\n")).replace(DIRECTORY, &directory).into_bytes()
        };
        Application {
            start: File::plain("index.html", filled(START)),
            manifest: File::plain("manifest.webmanifest", filled(MANIFEST)),
            fixed: FIXED.iter().map(|(name, body)| File::embedded(name, body)).collect(),
            files: FILES.iter().map(|(name, body)| File::embedded(name, body)).collect(),
            directory,
        }
    })
}

/// Returns the routes of the page. They need no login.
pub fn routes() -> Router {
    let fixed = FIXED.iter().enumerate().fold(Router::new(), |router, (at, (name, _))| {
        let serve = async move |headers: HeaderMap| application().fixed[at].respond(&headers, "no-cache");
        router.route(&format!("/{name}"), get(serve))
    });
    fixed
        .route("/", get(async |headers: HeaderMap| application().start.respond(&headers, "no-cache")))
        .route(
            "/manifest.webmanifest",
            get(async |headers: HeaderMap| application().manifest.respond(&headers, "no-cache")),
        )
        .route("/files/{version}/{name}", get(file))
}

/// Whether a path is one of [`routes`].
#[must_use]
pub fn serves(path: &str) -> bool {
    let is_fixed = || FIXED.iter().any(|(name, _)| path.strip_prefix('/') == Some(name));
    path == "/" || path == "/manifest.webmanifest" || path.starts_with("/files/") || is_fixed()
}

async fn file(Path((version, name)): Path<(String, String)>, headers: HeaderMap) -> Response {
    let application = application();
    let Some(file) = application.files.iter().find(|file| file.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // A page of an earlier version that is still open gets the new file, which must not be kept under the old name.
    let is_current = application.directory.ends_with(&version);
    file.respond(&headers, if is_current { "public, max-age=31536000, immutable" } else { "no-store" })
}

/// Returns the size of the whole application in bytes, compressed as it is sent.
#[must_use]
pub fn wire_size() -> usize {
    let application = application();
    let others = application.files.iter().chain(&application.fixed).map(File::wire_size);
    application.start.wire_size() + application.manifest.wire_size() + others.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_application_is_small() {
        assert!(wire_size() < 120 << 10, "{} bytes", wire_size());
    }

    #[test]
    fn every_asset_is_served_and_every_import_exists() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/assets");
        let names =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let own = ["index.html", "manifest.webmanifest", "sw.js", "icon-192.png", "icon-512.png"];
        for name in names.filter(|name| !own.contains(&name.as_str())) {
            assert!(FILES.iter().any(|(file, _)| *file == name), "{name} is in the folder and not served");
        }
        for File { name, body, .. } in application().files.iter().filter(|file| file.name.ends_with(".js")) {
            assert_eq!(*body, std::fs::read(format!("{folder}/{name}")).unwrap());
            let text = std::str::from_utf8(body).unwrap();
            for import in text.split("from \"./").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(FILES.iter().any(|(file, _)| *file == import), "{name} imports {import}");
            }
        }
    }

    #[test]
    fn start_page_names_files_relative_to_itself() {
        let start = String::from_utf8(application().start.body.to_vec()).unwrap();
        assert!(!start.contains(DIRECTORY) && !start.contains(MODULES), "{start}");
        assert!(start.contains(&format!("src=\"{}/main.js\"", application().directory)), "{start}");
        assert!(!start.contains("=\"/"), "absolute paths break a path prefix: {start}");
        assert!(!start.contains("<script>") && !start.contains("style="), "the policy forbids inline code");
    }

    #[test]
    fn compressed_only_if_accepted() {
        let accept = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
            accepts_gzip(&headers)
        };
        assert!(accept("gzip, deflate, br") && accept("br;q=1, gzip;q=0.5"));
        assert!(!accept("br") && !accept("gzip;q=0") && !accepts_gzip(&HeaderMap::new()));
    }
}
