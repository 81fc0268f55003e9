//! Expansion of `${NAME}` in configurations.

use std::ffi::OsString;
use std::path::Path;

use crate::origin::Origin;

/// Variables that a file of a workspace or a plugin may use. Everything else may be a secret, and a server could send it
/// anywhere.
const HARMLESS: [&str; 22] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "PWD",
    "TMPDIR",
    "TMP",
    "TEMP",
    "LANG",
    "TZ",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "JAVA_HOME",
    "CARGO_HOME",
    "GOPATH",
    "NODE_PATH",
    "PYTHONPATH",
    "NVM_BIN",
    "PNPM_HOME",
    "HOMEBREW_PREFIX",
    "BUN_INSTALL",
];

/// Prefixes of such variables.
const HARMLESS_PREFIXES: [&str; 2] = ["LC_", "XDG_"];

/// The variables that a declaration may use.
pub(crate) struct Variables<'a> {
    pub(crate) environment: &'a [(OsString, OsString)],
    pub(crate) origin: &'a Origin,
    /// Working directory of the session.
    pub(crate) cwd: &'a Path,
}

impl Variables<'_> {
    /// Expands `${NAME}`, `${env:NAME}` and `${NAME:-default}`.
    ///
    /// In a declaration of the user, an unknown variable without a default stays as it is written: a server then fails with
    /// a value that says which variable is missing.
    ///
    /// # Errors
    /// When a foreign declaration uses a variable that it may not see.
    pub(crate) fn expand(&self, text: &str) -> Result<String, String> {
        let (expanded, missing) = expand(text, &|name| self.value(name));
        match missing {
            Some(name) if self.origin.is_foreign() => Err(format!(
                "${{{name}}} is not available to {}; declare the server in your own configuration (`baton mcp add`)",
                self.origin
            )),
            _ => Ok(expanded),
        }
    }

    fn value(&self, name: &str) -> Option<String> {
        let root = self.origin.root();
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        match (name, self.origin) {
            ("workspaceFolder" | "CLAUDE_PROJECT_DIR", Origin::Plugin { .. }) => {
                return Some(shown(self.cwd));
            }
            ("PLUGIN_ROOT" | "CLAUDE_PLUGIN_ROOT" | "COPILOT_PLUGIN_ROOT", Origin::Plugin { root, .. }) => {
                return Some(shown(root));
            }
            ("workspaceFolder" | "CLAUDE_PROJECT_DIR", _) => return Some(shown(root.unwrap_or(self.cwd))),
            ("workspaceFolderBasename", _) => {
                return root.unwrap_or(self.cwd).file_name().map(|name| name.to_string_lossy().into_owned());
            }
            _ => {}
        }
        let name = if name == "userHome" { "HOME" } else { name };
        let is_harmless =
            HARMLESS.contains(&name) || HARMLESS_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if self.origin.is_foreign() && !is_harmless {
            return None;
        }
        let known = self.environment.iter().find(|(have, _)| have == name);
        known.map(|(_, value)| value.to_string_lossy().into_owned())
    }
}

/// Replaces variables that `lookup` knows, once. Also returns the name of the first one that it does not know.
fn expand<'a>(text: &'a str, lookup: &dyn Fn(&str) -> Option<String>) -> (String, Option<&'a str>) {
    let mut out = String::with_capacity(text.len());
    let mut missing = None;
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, after) = rest.split_at(start);
        out.push_str(before);
        let Some(end) = after.find('}') else {
            rest = after;
            break;
        };
        let inner = &after[2..end];
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        match lookup(name).or_else(|| default.map(str::to_owned)) {
            Some(value) => out.push_str(&value),
            None => {
                out.push_str(&after[..=end]);
                missing = missing.or(Some(name));
            }
        }
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    (out, missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_variables_are_replaced_once() {
        let lookup = |name: &str| match name {
            "A" => Some("${B}".to_owned()),
            "B" => Some("b".to_owned()),
            _ => None,
        };
        for (text, expected) in [
            ("plain $A", "plain $A"),
            ("x${B}y${env:B}", "xbyb"),
            ("${A}", "${B}"),
            ("${C}", "${C}"),
            ("${C:-d}${B:-d}", "db"),
            ("${B", "${B"),
            ("${}", "${}"),
        ] {
            assert_eq!(expand(text, &lookup).0, expected);
        }
    }

    #[test]
    fn foreign_declarations_see_no_secrets() {
        let environment: Vec<(OsString, OsString)> =
            [("HOME", "/h"), ("API_KEY", "secret"), ("https_proxy", "http://u:p@x")]
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect();
        let workspace = Origin::Workspace { file: "/w/.mcp.json".into(), root: "/w".into() };
        let plugin = Origin::Plugin { name: "p".into(), version: None, root: "/p".into() };
        let expand = |origin: &Origin, text: &str| {
            Variables { environment: &environment, origin, cwd: Path::new("/w/a") }.expand(text)
        };
        assert_eq!(expand(&Origin::User, "${API_KEY}"), Ok("secret".into()));
        assert_eq!(expand(&Origin::User, "${UNKNOWN}"), Ok("${UNKNOWN}".into()));
        for origin in [&workspace, &plugin] {
            assert_eq!(expand(origin, "${HOME}/x"), Ok("/h/x".into()));
            assert_eq!(expand(origin, "${API_KEY:-none}"), Ok("none".into()));
            for text in ["${API_KEY}", "a ${env:API_KEY} b", "${https_proxy}", "${UNKNOWN}"] {
                let error = expand(origin, text).unwrap_err();
                assert!(error.contains("not available") && error.contains("baton mcp add"), "{error}");
            }
        }
        assert_eq!(expand(&workspace, "${workspaceFolder}"), Ok("/w".into()));
        assert_eq!(expand(&plugin, "${CLAUDE_PLUGIN_ROOT}/s ${workspaceFolder}"), Ok("/p/s /w/a".into()));
    }
}
