//! Extensions: programs in directories that join a session as one more SDK client, over their own stdin and stdout.
//!
//! They are `.github/extensions/<name>/extension.mjs` of the workspace, and `extensions/<name>/extension.mjs` of the home
//! and of plugins. An extension of a workspace or of an installed plugin is a program that its author chose: it is started
//! only if the user trusts the folder, or has approved exactly this code. This module finds extensions, remembers approvals,
//! and starts processes; the door that talks to them decides when, and which session they join.

mod approvals;
mod environment;
mod launch;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use baton_disk::blocking;
use baton_files::locations::Location;
use baton_protocol::SessionId;
use baton_sandbox::Place;
use baton_settings::Settings;
pub use baton_skills::{Extension, Problem};
use baton_skills::{scan_extensions, scan_extensions_below};

use self::approvals::Approvals;
pub use self::environment::Environment;
use self::launch::Launch;
pub use self::launch::{Diagnostics, Process};
use crate::session_plugins::{self, PluginDirectory};
use crate::{AddonOptions, SessionTrust};

/// Directory of extensions in a workspace.
const WORKSPACE: &str = ".github/extensions";
/// Directory of extensions in the home, and in plugins.
const HOME: &str = "extensions";
/// Most extensions of one session.
const MOST: usize = 50;

/// Origin of an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A repository or working directory.
    Project,
    /// Baton's home.
    User,
    /// A plugin.
    Plugin {
        /// Name of the plugin.
        name: String,
        /// Whether somebody named the plugin's directory for this session or server.
        is_named: bool,
    },
}

impl Source {
    /// Returns the name that SDKs know.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
            Self::Plugin { .. } => "plugin",
        }
    }
}

/// An extension that a session can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Available {
    /// Where it comes from.
    pub source: Source,
    /// The extension.
    pub extension: Extension,
}

impl Available {
    /// Returns its id: source and name, with the name of its plugin between them.
    #[must_use]
    pub fn id(&self) -> String {
        let (source, name) = (self.source.as_str(), &self.extension.name);
        match self.plugin() {
            Some(plugin) => format!("{source}:{plugin}:{name}"),
            None => format!("{source}:{name}"),
        }
    }

    /// Returns the name of the plugin that it belongs to.
    #[must_use]
    pub fn plugin(&self) -> Option<&str> {
        match &self.source {
            Source::Plugin { name, .. } => Some(name),
            Source::Project | Source::User => None,
        }
    }
}

/// Extensions of all sessions; one per process.
pub struct Extensions {
    home: PathBuf,
    approvals: Approvals,
    /// Variables of the server's environment.
    pub environment: Environment,
}

impl Extensions {
    /// Creates them. Opens nothing.
    pub(crate) fn new(options: &AddonOptions) -> Self {
        Self {
            home: options.home.clone(),
            approvals: Approvals::new(&options.home),
            environment: Environment::new(options.extension_environment.clone(), options.secrets.clone()),
        }
    }

    /// Whether an extension may be started without a question: the user put it into the home, somebody named the directory of
    /// its plugin, or exactly its code was approved.
    ///
    /// # Errors
    /// When the approvals cannot be read.
    pub async fn is_trusted(&self, found: &Available) -> Result<bool, String> {
        match found.source {
            Source::User | Source::Plugin { is_named: true, .. } => Ok(true),
            Source::Project | Source::Plugin { is_named: false, .. } => {
                self.approvals.covers(&found.extension).await
            }
        }
    }

    /// Approves an extension with exactly this code.
    ///
    /// # Errors
    /// When the approval cannot be stored.
    pub async fn approve(&self, extension: &Extension) -> Result<(), String> {
        self.approvals.approve(extension).await
    }

    /// Whether the user has switched an extension off.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn is_disabled(&self, id: &str) -> Result<bool, String> {
        self.approvals.is_disabled(id).await
    }

    /// Switches an extension on or off, for all sessions.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn set_enabled(&self, id: String, enabled: bool) -> Result<(), String> {
        self.approvals.set_enabled(id, enabled).await
    }

    /// Whether an extension was given exactly these variables before.
    ///
    /// # Errors
    /// When the approvals cannot be read.
    pub async fn may_read(&self, extension: &Extension, names: &[String]) -> Result<bool, String> {
        self.approvals.may_read(extension, names).await
    }

    /// Approves that an extension reads these variables.
    ///
    /// # Errors
    /// When the approval cannot be stored.
    pub async fn let_read(&self, extension: &Extension, names: Vec<String>) -> Result<(), String> {
        self.approvals.let_read(extension, names).await
    }
}

impl crate::Addons {
    /// Finds the extensions for a working directory: those of its repository, the nearest first, the user's, and those of
    /// plugins. A name that was found already in the same source is left out. Without a session, installed plugins count.
    ///
    /// # Errors
    /// When the file system does not respond in time.
    pub async fn find_extensions(
        &self,
        cwd: &Path,
        settings: Option<&Settings>,
    ) -> Result<(Vec<Available>, Vec<Problem>), String> {
        let Location { key, .. } = Location::of(cwd.to_owned()).await?;
        let without_session = Settings::default();
        let installed = settings.is_none_or(Settings::discovers);
        let settings = settings.unwrap_or(&without_session);
        // Trust in a plugin's declarations is not trust in its extensions: each is asked about by itself.
        let trust = SessionTrust::default();
        let plugins = session_plugins::directories(self, settings, cwd, installed, &trust).await;
        let (root, start, home) = (PathBuf::from(key), cwd.to_owned(), self.extensions.home.join(HOME));
        let find = move || scan(&start, &root, &home, &plugins);
        blocking::run(find).await.map_err(|error| error.to_string())
    }

    /// Starts an extension for a session. Returns what it reads, and what it writes.
    ///
    /// # Errors
    /// When its program cannot be started.
    pub async fn start_extension(
        &self,
        found: &Available,
        session: &SessionId,
        cwd: &Path,
        sdk: Option<&Path>,
        place: Place,
    ) -> std::io::Result<(Process, OwnedFd, OwnedFd)> {
        let launch = Launch { found, session, cwd, sdk, environment: &self.extensions.environment, place };
        launch.start(&self.options.ledger, &self.options.tasks).await
    }
}

#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn scan(
    start: &Path,
    root: &Path,
    home: &Path,
    plugins: &[PluginDirectory],
) -> (Vec<Available>, Vec<Problem>) {
    let start = start.canonicalize().unwrap_or_else(|_| start.to_owned());
    let parents = start.ancestors().take_while(|parent| parent.starts_with(root));
    let places = parents.map(|parent| (Source::Project, parent.join(WORKSPACE)));
    let places = places.chain([(Source::User, home.to_owned())]);
    let of_places = places.map(|(source, place)| (source, scan_extensions(&place)));
    // Problems of the plugins themselves are reported with their skills.
    let plugins = session_plugins::load(plugins).plugins.into_iter();
    let of_plugins = plugins.map(|used| {
        let source = Source::Plugin { name: used.plugin.name, is_named: used.is_named };
        (source, scan_extensions_below(&used.plugin.root, Path::new(HOME)))
    });
    let (mut all, mut problems) = (Vec::<Available>::new(), Vec::new());
    for (source, (found, refused)) in of_places.chain(of_plugins) {
        problems.extend(refused);
        for extension in found {
            let is_known =
                |known: &Available| known.source == source && known.extension.name == extension.name;
            if all.len() < MOST && !all.iter().any(is_known) {
                all.push(Available { source: source.clone(), extension });
            }
        }
    }
    (all, problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_plugins::Trust;

    fn write(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    fn nearest_extension_of_a_name_counts_and_none_from_outside_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().canonicalize().unwrap();
        let (root, home) = (outside.join("repo"), outside.join("home/extensions"));
        write(&outside.join(".github/extensions/outside/extension.mjs"));
        write(&root.join(".github/extensions/a/extension.mjs"));
        write(&root.join("inner/.github/extensions/a/extension.mjs"));
        write(&home.join("a/extension.mjs"));
        let (found, problems) = scan(&root.join("inner"), &root, &home, &[]);
        let ids: Vec<String> = found.iter().map(Available::id).collect();
        assert_eq!(ids, ["project:a", "user:a"]);
        assert!(found[0].extension.root.starts_with(root.join("inner")), "{found:?}");
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[tokio::test]
    async fn extension_of_a_plugin_is_trusted_by_its_directory_or_its_code() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["named", "installed"] {
            write(&root.join(name).join("extensions/a/extension.mjs"));
            std::fs::write(root.join(name).join("plugin.json"), format!(r#"{{"name":"{name}"}}"#)).unwrap();
        }
        let plugin = |name: &str, trust: Trust| PluginDirectory { path: root.join(name), trust };
        let plugins =
            [plugin("named", Trust::Named), plugin("installed", Trust::Installed(vec!["digest".into()]))];
        let (found, problems) = scan(&root, &root, &root.join("home"), &plugins);
        assert!(problems.is_empty(), "{problems:?}");
        let [named, installed] = &*found else { panic!("{found:?}") };
        assert_eq!([named.id(), installed.id()], ["plugin:named:a", "plugin:installed:a"]);

        let home = tempfile::tempdir().unwrap();
        let approvals = Approvals::new(home.path());
        let environment = Environment::new(Vec::new(), std::sync::Arc::default());
        let extensions = Extensions { home: home.path().to_owned(), approvals, environment };
        assert!(extensions.is_trusted(named).await.unwrap());
        assert!(!extensions.is_trusted(installed).await.unwrap(), "installing approves no extension");
        extensions.approve(&installed.extension).await.unwrap();
        assert!(extensions.is_trusted(installed).await.unwrap());
    }
}
