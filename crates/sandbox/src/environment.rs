//! Variables of programs inside: no way to services outside, private caches, the proxy.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::secrets;

/// Where the caches of the location are inside.
pub(crate) const CACHES: &str = "/run/baton/cache";

/// Caches that programs write: a cache that is used outside later would be a way out, and those of the user are read-only.
const OF_PROGRAMS: &[(&str, &str)] = &[
    ("XDG_CACHE_HOME", "xdg"),
    ("GOCACHE", "go-build"),
    ("GOMODCACHE", "go-mod"),
    ("GRADLE_USER_HOME", "gradle"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("YARN_CACHE_FOLDER", "yarn"),
    ("npm_config_cache", "npm"),
    ("npm_config_store_dir", "pnpm"),
    ("CCACHE_DIR", "ccache"),
    ("SCCACHE_DIR", "sccache"),
];

/// Where programs find their directories.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Directories<'a> {
    /// Temporary files.
    pub(crate) temporary: &'a Path,
    /// Caches.
    pub(crate) caches: &'a Path,
}

impl Directories<'static> {
    /// Those of mounts.
    pub(crate) fn mounted() -> Self {
        Self { temporary: Path::new("/tmp"), caches: Path::new(CACHES) }
    }
}

/// Returns the variables of a program inside. `has_registry` says whether the user's own cargo home has crates, which cargo
/// can use without writing.
pub(crate) fn inside(
    passed: impl IntoIterator<Item = (OsString, OsString)>,
    directories: Directories<'_>,
    proxy: Option<u16>,
    has_registry: bool,
) -> Vec<(OsString, OsString)> {
    let is_ours = |name: &OsStr| {
        let name = name.to_string_lossy();
        secrets::VARIABLES.contains(&name.as_ref()) || is_proxy(&name)
    };
    let mut variables: BTreeMap<OsString, OsString> =
        passed.into_iter().filter(|(name, _)| !is_ours(name)).collect();
    let mut set = |name: &str, value: OsString| {
        variables.insert(name.into(), value);
    };
    for (name, directory) in OF_PROGRAMS {
        set(name, directories.caches.join(directory).into());
    }
    if !has_registry {
        set("CARGO_HOME", directories.caches.join("cargo").into());
    }
    set("TMPDIR", directories.temporary.into());
    if let Some(port) = proxy {
        let address = format!("http://127.0.0.1:{port}");
        for name in PROXIES {
            set(name, address.clone().into());
        }
        for name in ["NO_PROXY", "no_proxy"] {
            set(name, "localhost,127.0.0.1,::1".into());
        }
        set("NODE_USE_ENV_PROXY", "1".into());
        let java = ["http", "https"]
            .map(|scheme| format!("-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort={port}"));
        for name in ["GRADLE_OPTS", "MAVEN_OPTS"] {
            let mut options = variables.remove(OsStr::new(name)).unwrap_or_default();
            options.push(" ");
            options.push(java.join(" "));
            variables.insert(name.into(), options);
        }
    }
    go_proxy(&mut variables);
    variables.into_iter().collect()
}

/// Variables that name the proxy. `wget` and `curl` read the names in lower case only, for plain HTTP.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY"];

fn is_proxy(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy"].contains(&name.as_str())
}

/// Go reads the modules that the user has downloaded as if they were a server, so that they need no network.
fn go_proxy(variables: &mut BTreeMap<OsString, OsString>) {
    let Some(home) = variables.get(OsStr::new("HOME")) else { return };
    let mut proxies = OsString::from("file://");
    proxies.push(Path::new(home).join("go/pkg/mod/cache/download"));
    proxies.push(",");
    let own = variables.get(OsStr::new("GOPROXY")).cloned();
    proxies.push(own.unwrap_or_else(|| "direct".into()));
    variables.insert("GOPROXY".into(), proxies);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_out_are_removed_and_caches_are_private() {
        let passed =
            [("PATH", "/bin"), ("HOME", "/home/u"), ("SSH_AUTH_SOCK", "/x"), ("HTTPS_PROXY", "http://corp")];
        let passed = passed.map(|(name, value)| (name.into(), value.into()));
        let find = |variables: &[(OsString, OsString)], name: &str| {
            variables.iter().find(|(n, _)| n == name).map(|(_, value)| value.to_string_lossy().into_owned())
        };
        let inside_with = inside(passed.clone(), Directories::mounted(), Some(3128), true);
        assert_eq!(find(&inside_with, "SSH_AUTH_SOCK"), None);
        assert_eq!(find(&inside_with, "https_proxy").unwrap(), "http://127.0.0.1:3128");
        assert_eq!(find(&inside_with, "npm_config_cache").unwrap(), "/run/baton/cache/npm");
        assert!(
            find(&inside_with, "GOPROXY")
                .unwrap()
                .starts_with("file:///home/u/go/pkg/mod/cache/download,direct")
        );
        assert_eq!(find(&inside_with, "CARGO_HOME"), None);
        let without = inside(passed, Directories::mounted(), None, false);
        assert_eq!(find(&without, "HTTPS_PROXY"), None, "no network, no proxy");
        assert_eq!(find(&without, "CARGO_HOME").unwrap(), "/run/baton/cache/cargo");
        assert_eq!(find(&without, "PATH").unwrap(), "/bin");
    }
}
