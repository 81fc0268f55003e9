//! Whether a program has credentials, as far as files and variables tell.
//!
//! A login may be where nobody looks: in a keyring, in a file that another variable names, behind a proxy that needs none. So what
//! is missing here is a warning and never a refusal.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::Mode;
use crate::program::Program;

/// What a program's credentials leave behind.
struct Traces {
    /// The program's directory: the variable that names it, and where it is below the home otherwise.
    directory: (&'static str, &'static str),
    /// Files of the directory, with words of which one has to be in the file.
    files: &'static [(&'static str, &'static [&'static str])],
    /// Variables: a whole name, or its end if it begins with an asterisk.
    variables: &'static [&'static str],
}

const CODEX: Traces = Traces {
    directory: ("CODEX_HOME", ".codex"),
    files: &[
        ("auth.json", &[]),
        // A configured provider or address may need no login, and credentials can be in a keyring.
        ("config.toml", &["model_provider", "oss", "openai_base_url", "cli_auth_credentials_store"]),
    ],
    // `codex app-server` uses none, and `codex exec` not OPENAI_API_KEY.
    variables: &[],
};

const CODEX_EXEC: Traces = Traces { variables: &["CODEX_API_KEY", "CODEX_ACCESS_TOKEN"], ..CODEX };

const CLAUDE: Traces = Traces {
    directory: ("CLAUDE_CONFIG_DIR", ".claude"),
    files: &[(".credentials.json", &[]), ("settings.json", &["apiKeyHelper", "ANTHROPIC_"])],
    variables: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
        "CLAUDE_CODE_USE_FOUNDRY",
    ],
};

const PI: Traces = Traces {
    directory: ("PI_CODING_AGENT_DIR", ".pi/agent"),
    // Without a login, the first file is an empty object.
    files: &[("auth.json", &["\""]), ("models.json", &[])],
    variables: &["*_KEY", "*_TOKEN", "*_CREDENTIALS", "AWS_PROFILE"],
};

const GEMINI: Traces = Traces {
    directory: ("", ".gemini"),
    files: &[("oauth_creds.json", &[]), ("settings.json", &["auth"]), (".env", &[])],
    variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"],
};

const QWEN: Traces = Traces {
    directory: ("", ".qwen"),
    files: &[("oauth_creds.json", &[]), ("settings.json", &["auth", "modelProviders"]), (".env", &[])],
    variables: &["*_API_KEY"],
};

/// Paths are below the home: variables can move both directories, and name further files.
const OPENCODE: Traces = Traces {
    directory: ("", ""),
    files: &[
        (".local/share/opencode/auth.json", &["\""]),
        (".config/opencode/opencode.json", &["provider"]),
        (".config/opencode/opencode.jsonc", &["provider"]),
        (".config/opencode/config.json", &["provider"]),
    ],
    variables: &[
        "*_KEY",
        "*_TOKEN",
        "*_CREDENTIALS",
        "AWS_PROFILE",
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
        "OPENCODE_CONFIG",
        "OPENCODE_CONFIG_DIR",
        "OPENCODE_CONFIG_CONTENT",
    ],
};

/// Describes that no credentials of the program were found. None if there are some, or if nobody can tell. Blocks.
pub(crate) fn missing(program: &Program) -> Option<String> {
    let traces = match program.info.name {
        "codex" if program.settings.mode == Mode::Exec => CODEX_EXEC,
        "codex" => CODEX,
        // On other systems it uses the keychain.
        "claude" if cfg!(target_os = "linux") => CLAUDE,
        "pi" => PI,
        "gemini" => GEMINI,
        "qwen" => QWEN,
        "opencode" => OPENCODE,
        _ => return None,
    };
    let (variable, below_home) = traces.directory;
    let named = program.variable(variable).map(PathBuf::from);
    let directory = match named {
        Some(directory) => directory,
        None => PathBuf::from(program.variable("HOME")?).join(below_home),
    };
    let is_set = |name: &OsStr| {
        is_named(name, traces.variables)
            && name.to_str().and_then(|name| program.variable(name)).is_some_and(|value| !value.is_empty())
    };
    let is_there = traces.files.iter().any(|(file, words)| has_word(&directory.join(file), words))
        || program.environment(&[]).iter().any(|(name, _)| is_set(name));
    let info = &program.info;
    let problem = match info.name {
        // It has models that need no login.
        "opencode" => "seems to have no provider: it uses opencode's own free models, if it can reach them",
        _ => "is probably not logged in: no credentials were found",
    };
    (!is_there).then(|| format!("{} {problem}. {}", info.name, info.login))
}

/// Whether a file has one of the words, or any text if there are no words.
#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn has_word(file: &Path, words: &[&str]) -> bool {
    if words.is_empty() {
        return file.is_file();
    }
    std::fs::read_to_string(file).is_ok_and(|text| words.iter().any(|word| text.contains(word)))
}

fn is_named(name: &OsStr, patterns: &[&str]) -> bool {
    let name = name.to_string_lossy();
    patterns.iter().any(|pattern| match pattern.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name == *pattern,
    })
}
