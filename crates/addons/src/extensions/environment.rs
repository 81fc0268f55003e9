//! Variables of extensions. Those that look like secrets are withheld; an extension can request them by name.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use baton_providers::Secrets;

/// Parts of names that make a variable sensitive.
const SENSITIVE: [&str; 16] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASS",
    "PWD",
    "CREDENTIAL",
    "CREDENTIALS",
    "KEY",
    "APIKEY",
    "AUTH",
    "COOKIE",
    "DSN",
    "PAT",
    "WEBHOOK",
];
/// Names that only look sensitive: the working directory, and sockets of agents that keep keys to themselves.
const HARMLESS: [&str; 4] = ["PWD", "OLDPWD", "SSH_AUTH_SOCK", "GPG_TTY"];
/// Variables that would change which code an extension runs. They are for the server's user, not for extensions.
const REDIRECTING: [&str; 3] = ["NODE_OPTIONS", "LD_PRELOAD", "LD_AUDIT"];
/// Most names in one request.
const MOST_NAMES: usize = 64;

/// Variables of the server's environment, without the tokens that Baton reads itself.
pub struct Environment {
    all: Vec<(OsString, OsString)>,
    secrets: Arc<Secrets>,
}

impl Environment {
    pub(crate) fn new(all: Vec<(OsString, OsString)>, secrets: Arc<Secrets>) -> Self {
        Self { all, secrets }
    }

    /// Returns the variables that every extension sees.
    pub(super) fn passed(&self) -> Vec<(OsString, OsString)> {
        self.all.iter().filter(|(name, value)| !self.is_withheld(name, value)).cloned().collect()
    }

    /// Returns the withheld variables among those that an extension requests, with their values. Variables that are not
    /// set, or not text, are left out.
    ///
    /// # Errors
    /// When too many are requested.
    pub fn requested(&self, names: &[String]) -> Result<BTreeMap<String, String>, String> {
        if names.len() > MOST_NAMES {
            return Err(format!("more than {MOST_NAMES} environment variables were requested"));
        }
        let named = |name: &str| names.iter().any(|requested| requested == name);
        let variables = self.all.iter().filter(|(name, value)| self.is_withheld(name, value));
        let variables = variables.filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
        let variables = variables.filter(|(name, _)| named(name) && !REDIRECTING.contains(name));
        Ok(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn is_withheld(&self, name: &OsStr, value: &OsStr) -> bool {
        let value = value.to_string_lossy();
        is_sensitive(&name.to_string_lossy()) || has_password(&value) || self.secrets.hide_in(&value) != value
    }
}

fn is_sensitive(name: &str) -> bool {
    if HARMLESS.contains(&name) {
        return false;
    }
    let upper = name.to_ascii_uppercase();
    let mut parts = upper.split(|c: char| !c.is_ascii_alphanumeric());
    REDIRECTING.contains(&upper.as_str())
        || parts.any(|part| SENSITIVE.contains(&part) || SENSITIVE[..4].iter().any(|end| part.ends_with(end)))
}

/// Whether a value is an address with a user's password.
fn has_password(value: &str) -> bool {
    let authority =
        value.split_once("://").map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or(rest));
    authority.and_then(|authority| authority.rsplit_once('@')).is_some_and(|(user, _)| user.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let secrets = Arc::new(Secrets::default());
        secrets.add(vec!["known-credential-of-baton".into()]);
        let all = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        Environment::new(all, secrets)
    }

    #[test]
    fn sensitive_variables_are_withheld() {
        let sensitive = [
            ("GITHUB_TOKEN", "x"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("pg_password", "x"),
            ("NPM_AUTHTOKEN", "x"),
            ("MY_API_KEY", "x"),
            ("DATABASE_URL", "postgres://me:secret@host/db"),
            ("ALIAS", "Bearer known-credential-of-baton"),
            ("NODE_OPTIONS", "--require /tmp/x.js"),
        ];
        let harmless = [
            ("PATH", "/bin"),
            ("PWD", "/work"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("KEYBOARD", "us"),
            ("HOMEPAGE", "https://example.org/a@b:c"),
            ("RESULT_FILE", "/tmp/x"),
        ];
        let all = environment(&[&sensitive[..], &harmless].concat());
        let passed = all.passed();
        let names: Vec<&str> = passed.iter().filter_map(|(name, _)| name.to_str()).collect();
        assert_eq!(names, harmless.map(|(name, _)| name));
    }

    #[test]
    fn requested_variables_are_those_that_are_withheld_and_set() {
        let all =
            environment(&[("A_TOKEN", "1"), ("B_TOKEN", "2"), ("PATH", "/bin"), ("NODE_OPTIONS", "-r x")]);
        let names = ["A_TOKEN", "C_TOKEN", "PATH", "NODE_OPTIONS"].map(str::to_owned);
        let granted = all.requested(&names).unwrap();
        assert_eq!(granted.into_iter().collect::<Vec<_>>(), [("A_TOKEN".to_owned(), "1".to_owned())]);
        assert!(all.requested(&vec!["X".to_owned(); 65]).is_err());
    }
}
