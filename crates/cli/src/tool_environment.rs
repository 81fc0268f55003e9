//! The environment of commands: the variables listed in `docs/environment.md`, and those that `[tools]` of the
//! configuration adds. A model can print every variable that its commands see, so all others are withheld.
//!
//! Engines are different: they log in by themselves, with keys whose names cannot be listed here. They see every variable
//! but those in [`TOKENS`]. Of the keys for models, each engine gets those that it uses: `baton_engines` knows them.

use std::ffi::{OsStr, OsString};

use serde::Deserialize;

/// Variables that commands see. A `*` at the end matches the rest of a name.
#[rustfmt::skip]
const PASSED: &[&str] = &[
    // User, paths, temporary files.
    "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "PATH", "MANPATH", "INFOPATH", "TMPDIR", "TMP", "TEMP", "XDG_*",
    // Language and time.
    "LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR",
    // Terminal and desktop.
    "TERM", "TERMINFO", "TERMINFO_DIRS", "COLORTERM", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "EDITOR",
    "VISUAL", "PAGER", "LESS", "LS_COLORS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS",
    "WSL_DISTRO_NAME", "WSL_INTEROP", "WSLENV", "CI",
    // SSH and GnuPG agents, which hold keys without revealing them.
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_TTY", "GNUPGHOME",
    // Proxies. Their addresses may contain a password.
    "http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY",
    "ALL_PROXY", "NO_PROXY",
    // Certificates.
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT",
    "NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "CARGO_HTTP_CAINFO",
    // git.
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_EDITOR", "GIT_PAGER",
    "GIT_SSH", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_TERMINAL_PROMPT",
    // C, C++, CUDA.
    "CC", "CXX", "CPP", "LD", "AR", "NM", "RANLIB", "STRIP", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS",
    "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "PKG_CONFIG_SYSROOT_DIR", "CMAKE_PREFIX_PATH", "CMAKE_GENERATOR",
    "CMAKE_BUILD_PARALLEL_LEVEL", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
    "ACLOCAL_PATH", "SDKROOT", "DEVELOPER_DIR", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "ROCM_PATH",
    // Rust.
    "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_BUILD_JOBS", "CARGO_INCREMENTAL", "CARGO_TERM_COLOR", "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN", "RUSTC_WRAPPER", "RUSTFLAGS", "RUSTDOCFLAGS", "RUST_BACKTRACE", "RUST_LOG", "RUST_SRC_PATH",
    // Go.
    "GOROOT", "GOPATH", "GOBIN", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOTOOLCHAIN", "GOOS", "GOARCH", "CGO_ENABLED",
    // JVM.
    "JAVA_HOME", "JDK_HOME", "JAVA_OPTS", "MAVEN_HOME", "M2_HOME", "MAVEN_OPTS", "GRADLE_HOME", "GRADLE_USER_HOME",
    "GRADLE_OPTS", "KOTLIN_HOME", "SDKMAN_DIR", "ANDROID_HOME", "ANDROID_SDK_ROOT", "ANDROID_NDK_HOME",
    // JavaScript.
    "NODE_PATH", "NODE_ENV", "NVM_DIR", "NVM_BIN", "NVM_INC", "FNM_DIR", "FNM_MULTISHELL_PATH", "VOLTA_HOME",
    "PNPM_HOME", "COREPACK_HOME", "BUN_INSTALL", "DENO_DIR", "DENO_INSTALL",
    // Python.
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONIOENCODING",
    "PYTHONUTF8", "PYENV_ROOT", "PYENV_VERSION", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE",
    "CONDA_PYTHON_EXE", "CONDA_SHLVL", "MAMBA_ROOT_PREFIX", "PIPX_HOME", "PIPX_BIN_DIR", "POETRY_HOME", "UV_CACHE_DIR",
    "UV_PYTHON", "UV_PROJECT_ENVIRONMENT", "PIP_CACHE_DIR",
    // Other toolchains and containers.
    "RBENV_ROOT", "RBENV_VERSION", "RBENV_SHELL", "GEM_HOME", "GEM_PATH", "RUBYLIB", "BUNDLE_PATH", "COMPOSER_HOME",
    "DOTNET_ROOT", "DOTNET_CLI_HOME", "DOTNET_CLI_TELEMETRY_OPTOUT", "NUGET_PACKAGES", "PERL5LIB", "PERL_LOCAL_LIB_ROOT",
    "LUA_PATH", "LUA_CPATH", "OPAM_SWITCH_PREFIX", "OPAMROOT", "CAML_LD_LIBRARY_PATH", "OCAML_TOPLEVEL_PATH",
    "GHCUP_INSTALL_BASE_PREFIX", "STACK_ROOT", "JULIA_DEPOT_PATH", "R_HOME", "R_LIBS", "R_LIBS_USER", "NIX_PATH",
    "NIX_PROFILES", "NIX_STORE", "IN_NIX_SHELL", "ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "MISE_SHELL",
    "HOMEBREW_PREFIX", "HOMEBREW_CELLAR", "HOMEBREW_REPOSITORY", "DOCKER_HOST", "DOCKER_CONTEXT", "KUBECONFIG",
    // Baton's home, for a `baton` that a command starts.
    "BATON_HOME", "COPILOT_HOME",
];

/// Tokens that Baton reads itself. Neither commands nor engines ever see them.
const TOKENS: [&str; 9] = [
    "BATON_TOKEN",
    "BATON_STORE",
    "BATON_PEER_SECRET",
    "PGPASSWORD",
    "COPILOT_SDK_AUTH_TOKEN",
    "COPILOT_CONNECTION_TOKEN",
    "COPILOT_GITHUB_TOKEN",
    "COPILOT_HMAC_KEY",
    "GITHUB_COPILOT_API_TOKEN",
];

/// Keys of models that Baton reads itself. Commands never see them.
const MODEL_KEYS: [&str; 2] = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"];

/// Returns the variables that commands never see.
fn own() -> impl Iterator<Item = &'static str> {
    TOKENS.into_iter().chain(MODEL_KEYS)
}

/// Minimum length of a secret; shorter values are placeholders that other variables may share.
const MIN_SECRET_LENGTH: usize = 16;

/// The `[tools]` table of the configuration file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolsTable {
    /// Further variables that commands see: names, or prefixes that end in `*`.
    environment: Vec<String>,
}

impl ToolsTable {
    /// Validates the patterns.
    pub(crate) fn patterns(self) -> anyhow::Result<Vec<String>> {
        for pattern in &self.environment {
            let name = pattern.strip_suffix('*').unwrap_or(pattern);
            anyhow::ensure!(
                !pattern.is_empty() && !name.contains(['*', '=', ' ']),
                "tools.environment: {pattern:?} is neither the name of a variable nor a prefix such as \"AWS_*\""
            );
            anyhow::ensure!(
                !own().any(|own| own == pattern),
                "tools.environment: {pattern} is read by Baton and never passed to commands; remove it"
            );
        }
        Ok(self.environment)
    }
}

/// Decides which variables are passed on.
#[derive(Debug, Default)]
pub(crate) struct Filter<'a> {
    /// Patterns from the configuration.
    pub(crate) configured: &'a [String],
    /// Further variables that Baton reads secrets from: the provider's key, an SDK's token.
    pub(crate) secret_names: Vec<&'a str>,
    /// The secrets themselves, which a variable of any name may contain.
    pub(crate) secrets: Vec<&'a str>,
}

impl Filter<'_> {
    /// Returns the variables that commands of sessions see.
    pub(crate) fn for_commands(
        &self,
        all: impl Iterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        all.filter(|(name, value)| self.passes(name, value)).collect()
    }

    /// Whether commands of sessions see a variable.
    pub(crate) fn passes(&self, name: &OsStr, value: &OsStr) -> bool {
        self.is_listed(name) && !self.is_secret(name, value)
    }

    /// Returns the variables that engines see, with the keys of all models.
    pub(crate) fn for_engines(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
        all.filter(|(name, _)| !TOKENS.iter().any(|token| name == token)).collect()
    }

    fn is_listed(&self, name: &OsStr) -> bool {
        let patterns = PASSED.iter().copied().chain(self.configured.iter().map(String::as_str));
        patterns.into_iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => name.as_encoded_bytes().starts_with(prefix.as_bytes()),
            None => name == pattern,
        })
    }

    fn is_secret(&self, name: &OsStr, value: &OsStr) -> bool {
        let mut secrets = self.secrets.iter().filter(|secret| secret.len() >= MIN_SECRET_LENGTH);
        let value = value.to_string_lossy();
        own().any(|own| name == own)
            || self.secret_names.iter().any(|secret| name == *secret)
            || secrets.any(|secret| value.contains(secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(&str, &str); 14] = [
        ("PATH", "/bin"),
        ("LC_ALL", "C"),
        ("SSH_AUTH_SOCK", "/s"),
        ("https_proxy", "http://p"),
        ("CARGO_HOME", "/c"),
        ("COPILOT_HOME", "/h"),
        ("AWS_REGION", "x"),
        ("AWS_SECRET_ACCESS_KEY", "aws-secret"),
        ("OPENAI_API_KEY", "openai-key"),
        ("COPILOT_CONNECTION_TOKEN", "connection"),
        ("MY_KEY", "provider-key-of-mine"),
        ("MY_ALIAS", "Bearer provider-key-of-mine"),
        ("GH_TOKEN", "gh-token"),
        ("DATABASE_URL", "postgres://u:p@h"),
    ];

    fn all() -> impl Iterator<Item = (OsString, OsString)> {
        ALL.into_iter().map(|(name, value)| (name.into(), value.into()))
    }

    fn names(variables: &[(OsString, OsString)]) -> Vec<&str> {
        variables.iter().map(|(name, _)| name.to_str().unwrap()).collect()
    }

    const USUAL: [&str; 6] = ["PATH", "LC_ALL", "SSH_AUTH_SOCK", "https_proxy", "CARGO_HOME", "COPILOT_HOME"];

    #[test]
    fn commands_see_only_listed_variables() {
        assert_eq!(names(&Filter::default().for_commands(all())), USUAL);
    }

    #[test]
    fn configuration_adds_names_and_prefixes_but_no_secret_of_baton() {
        let named = ["AWS_*".to_owned(), "GH_TOKEN".into()];
        let filter = Filter { configured: &named, ..Filter::default() };
        let more = ["AWS_REGION", "AWS_SECRET_ACCESS_KEY", "GH_TOKEN"];
        assert_eq!(names(&filter.for_commands(all())), [&USUAL[..], &more].concat());

        let everything = ["*".to_owned()];
        let filter = Filter {
            configured: &everything,
            secret_names: vec!["MY_KEY", "GH_TOKEN"],
            secrets: vec!["provider-key-of-mine", "/bin"],
        };
        let more = ["AWS_REGION", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL"];
        assert_eq!(names(&filter.for_commands(all())), [&USUAL[..], &more].concat());
    }

    #[test]
    fn engines_see_all_but_the_tokens_of_baton() {
        let seen = Filter::for_engines(all());
        assert_eq!(seen.len(), ALL.len() - 1);
        assert!(names(&seen).contains(&"OPENAI_API_KEY"), "an engine may log in with it");
        assert!(!names(&seen).contains(&"COPILOT_CONNECTION_TOKEN"));
    }

    #[test]
    fn documentation_lists_every_variable() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/environment.md");
        let page = std::fs::read_to_string(page).unwrap();
        for name in PASSED.iter().copied().chain(own()) {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn invalid_patterns_are_named_in_the_error() {
        for wrong in ["", "A*B", "A=b", "OPENAI_API_KEY", "BATON_TOKEN"] {
            let table = ToolsTable { environment: vec![wrong.into()] };
            assert!(table.patterns().unwrap_err().to_string().contains(wrong), "{wrong}");
        }
        let table = ToolsTable { environment: vec!["AWS_*".into(), "GH_TOKEN".into()] };
        assert_eq!(table.patterns().unwrap().len(), 2);
    }
}
