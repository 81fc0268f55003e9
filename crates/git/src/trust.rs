//! Whether the configuration of a repository can make git run a program.
//!
//! `git status` only reads, and yet runs programs that a repository names: filters, a file system monitor, a hook, and the
//! same in each submodule. A repository from an archive has a configuration that its author chose. So a grant for
//! read-only commands of git applies only where the configuration consists of settings that are known to run nothing.
//! With any other setting, and wherever git might read something differently from this module, the user is asked.
//!
//! The configuration files of the user and of the system are trusted.

use std::path::{Path, PathBuf};

use baton_agent::tools::shell;
use baton_disk::blocking;
use baton_disk::untrusted::{Unreadable, UntrustedDirectory};
use baton_protocol::permission::PermissionRequest;

use super::config::{self, Setting};
use super::{CONFIG, Data, LINE, data, index, is_commit, is_same};

/// Size limit of an index, which has about a hundred bytes per file.
const INDEX: usize = 64 << 20;
/// Maximum number of repositories to check: one and its submodules, at all depths.
const MOST_REPOSITORIES: usize = 256;
/// Length limit of a reported setting, in characters.
const SHOWN: usize = 120;
/// The only hook that read-only commands run.
const HOOK: &str = "post-index-change";

/// Marks a request to run read-only git commands if the configuration of the repository can run a program, so that no grant
/// covers it. Any other request is returned unchanged, without I/O.
pub async fn distrusted(request: PermissionRequest, cwd: &Path) -> PermissionRequest {
    if !shell::reads_repository(&request) {
        return request;
    }
    let directory = cwd.to_owned();
    let found = blocking::run(move || around(&directory)).await;
    match found.unwrap_or_else(|error| Err(Risk(error.to_string()))) {
        Ok(()) => request,
        Err(Risk(setting)) => shell::in_distrusted_repository(request, setting),
    }
}

/// Whether the text of a repository's configuration file can make git run a program, wherever the repository is. A text that
/// git might read differently can.
#[must_use]
pub fn may_run_programs(configuration: &[u8]) -> bool {
    let Some(settings) = settings(configuration) else { return true };
    let is_harmless = |setting: &Setting| match (setting.section.as_str(), setting.key.as_str()) {
        ("core", "fsmonitor") => matches!(setting.value.as_deref(), Some("true" | "false")),
        _ => is_listed(setting),
    };
    !settings.iter().all(is_harmless)
}

/// Returns the files that a repository's configuration includes, and its directory of hooks, as they are written.
#[must_use]
pub fn named_files(configuration: &[u8]) -> Vec<PathBuf> {
    let names = |setting: &Setting| {
        matches!(
            (setting.section.as_str(), setting.key.as_str()),
            ("include" | "includeif", "path") | ("core", "hookspath")
        )
    };
    let settings = settings(configuration).unwrap_or_default();
    settings.into_iter().filter(names).filter_map(|setting| setting.value.map(PathBuf::from)).collect()
}

fn settings(configuration: &[u8]) -> Option<Vec<Setting>> {
    config::settings(std::str::from_utf8(configuration).ok()?)
}

/// A setting that can run a program, or the reason why that is unknown.
#[derive(Debug)]
struct Risk(String);

impl Risk {
    /// Cleans and shortens the text: it may contain names that the repository chose.
    fn new(text: impl Into<String>) -> Self {
        let text: String = text.into();
        let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        Self(clean.take(SHOWN).collect())
    }

    fn at(what: &str, path: &Path) -> Self {
        Self::new(format!("{what}: {}", path.display()))
    }
}

/// Checks the repository that git would find from a directory. Blocks.
#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn around(directory: &Path) -> Result<(), Risk> {
    let directory =
        directory.canonicalize().map_err(|_| Risk::at("the directory cannot be read", directory))?;
    for root in directory.ancestors() {
        let dot = root.join(".git");
        match dot.symlink_metadata() {
            // Like git, ignore a `.git` without a `HEAD`, and continue with the parent.
            Ok(found) if found.is_dir() && is_absent(&dot.join("HEAD")) => {}
            Ok(_) => return Inspection::default().run(root.to_owned()),
            Err(_) if is_absent(&dot) => {}
            Err(_) => return Err(Risk::at("it cannot be read", &dot)),
        }
        let looks_bare = ["HEAD", "objects", "refs"].iter().all(|name| !is_absent(&root.join(name)));
        if looks_bare {
            return Err(Risk::at("a bare repository", root));
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool")]
fn is_absent(path: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    path.symlink_metadata().is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

/// Check of a repository and its submodules.
#[derive(Default)]
struct Inspection {
    /// Work trees to check.
    pending: Vec<PathBuf>,
    checked: usize,
}

impl Inspection {
    fn run(mut self, root: PathBuf) -> Result<(), Risk> {
        self.pending.push(root);
        while let Some(root) = self.pending.pop() {
            self.checked += 1;
            if self.checked > MOST_REPOSITORIES {
                return Err(Risk::new("it has too many submodules to check"));
            }
            self.check(&root)?;
        }
        Ok(())
    }

    fn check(&mut self, root: &Path) -> Result<(), Risk> {
        let unknown = || Risk::at("a repository that is not understood", root);
        let data = data(root).filter(is_certain).ok_or_else(unknown)?;
        let shared = Configuration::read(data.common(), "config")?;
        shared.check(root, &data)?;
        Configuration::read(&data.own, "config.worktree")?.check(root, &data)?;
        if !is_absent(&data.common().path().join("hooks").join(HOOK)) {
            return Err(Risk::new(format!("the hook {HOOK}")));
        }
        let index = match data.own.read("index", INDEX) {
            Ok(index) if !index.is_cut => index.bytes,
            Err(Unreadable::Absent) => return Ok(()),
            _ => return Err(Risk::new("its index cannot be read")),
        };
        let submodules = index::submodules(&index, shared.hash_length())
            .ok_or_else(|| Risk::new("its index is not understood"))?;
        self.pending.extend(submodules.iter().map(|path| root.join(path)).filter(|sub| {
            // A submodule that is not checked out has no configuration.
            !is_absent(&sub.join(".git"))
        }));
        Ok(())
    }
}

/// Whether git recognises the repository too, and does not continue with the parent directory.
fn is_certain(data: &Data) -> bool {
    let head = data.own.read_text("HEAD", LINE).unwrap_or_default();
    let has = |name: &str| data.common().subdirectory(name).is_ok();
    (head.starts_with("ref: refs/") || is_commit(head.trim_end())) && has("objects") && has("refs")
}

/// Settings of one file.
struct Configuration(Vec<Setting>);

impl Configuration {
    fn read(directory: &UntrustedDirectory, name: &str) -> Result<Self, Risk> {
        let path = directory.path().join(name);
        let excerpt = match directory.read(name, CONFIG) {
            Ok(excerpt) if !excerpt.is_cut => excerpt,
            Err(Unreadable::Absent) => return Ok(Self(Vec::new())),
            _ => return Err(Risk::at("it cannot be read", &path)),
        };
        let settings = excerpt.into_text().ok().and_then(|text| config::settings(&text));
        settings.map(Self).ok_or_else(|| Risk::at("it is not understood", &path))
    }

    fn check(&self, root: &Path, data: &Data) -> Result<(), Risk> {
        match self.0.iter().find(|setting| !is_inert(setting, root, data)) {
            Some(setting) => Err(Risk::new(setting.to_string())),
            None => Ok(()),
        }
    }

    fn hash_length(&self) -> usize {
        let names_hash = |setting: &&Setting| {
            (setting.section.as_str(), setting.key.as_str()) == ("extensions", "objectformat")
        };
        // The last value applies.
        let named = self.0.iter().rfind(names_hash).and_then(|setting| setting.value.as_deref());
        if named == Some("sha256") { 32 } else { 20 }
    }
}

/// Settings with which read-only commands run no program: section, whether it has a subsection, and keys; no keys means
/// all of them. Other programs write some of them.
const INERT: &[(&str, bool, &str)] = &[
    (
        "core",
        false,
        "\
            repositoryformatversion filemode bare logallrefupdates symlinks ignorecase \
            precomposeunicode protecthfs protectntfs autocrlf eol safecrlf trustctime checkstat \
            quotepath abbrev compression loosecompression bigfilethreshold preloadindex \
            untrackedcache splitindex multipackindex commitgraph whitespace sharedrepository \
            warnambiguousrefs longpaths fscache sparsecheckout sparsecheckoutcone notesref \
            excludesfile packedgitlimit packedgitwindowsize deltabasecachelimit",
    ),
    ("branch", true, ""),
    ("branch", false, "autosetupmerge autosetuprebase sort"),
    // Read-only commands fetch only in a partial clone, which has other settings beside these.
    (
        "remote",
        true,
        "\
            url pushurl fetch push tagopt prune prunetags mirror skipdefaultupdate skipfetchall \
            followremotehead gh-resolved",
    ),
    ("remote", false, "pushdefault"),
    ("url", true, "insteadof pushinsteadof"),
    ("http", true, "extraheader sslverify postbuffer version"),
    ("http", false, "extraheader sslverify postbuffer version"),
    ("submodule", true, "url active branch ignore shallow"),
    ("submodule", false, "active recurse fetchjobs"),
    ("extensions", false, "objectformat worktreeconfig refstorage preciousobjects relativeworktrees"),
    ("user", false, "name email signingkey useconfigonly"),
    ("author", false, "name email"),
    ("committer", false, "name email"),
    ("init", false, "defaultbranch"),
    ("pull", false, "rebase ff"),
    ("push", false, "default autosetupremote followtags recursesubmodules"),
    ("fetch", false, "prune prunetags parallel recursesubmodules writecommitgraph"),
    ("merge", false, "ff conflictstyle renames renamelimit log"),
    ("rebase", false, "autostash autosquash updaterefs"),
    ("rerere", false, "enabled autoupdate"),
    ("commit", false, "gpgsign verbose cleanup status"),
    ("tag", false, "gpgsign sort"),
    ("gc", false, "auto autodetach autopacklimit pruneexpire"),
    ("maintenance", false, "auto strategy"),
    ("pack", false, "threads windowmemory deltacachesize packsizelimit window depth"),
    ("index", false, "version threads sparse skiphash"),
    ("feature", false, "manyfiles experimental"),
    ("color", false, ""),
    ("color", true, ""),
    ("column", false, ""),
    ("advice", false, ""),
    ("status", false, "short branch relativepaths showuntrackedfiles showstash renames aheadbehind"),
    (
        "diff",
        false,
        "\
            renames renamelimit algorithm colormoved mnemonicprefix noprefix context \
            ignoresubmodules submodule indentheuristic autorefreshindex",
    ),
    ("log", false, "date decorate abbrevcommit follow"),
    ("i18n", false, "commitencoding logoutputencoding"),
    // The LFS filter of the user reads these. Its other settings name programs.
    ("lfs", false, "repositoryformatversion"),
    ("lfs", true, "access locksverify"),
];

fn is_inert(setting: &Setting, root: &Path, data: &Data) -> bool {
    let value = setting.value.as_deref().unwrap_or_default();
    if setting.section == "core" && setting.subsection.is_none() {
        match setting.key.as_str() {
            // Submodules name their own work tree. Any other work tree could have files that are not checked here.
            "worktree" => return is_same(&data.own.path().join(value), root),
            // With `true` git starts its built-in monitor.
            "fsmonitor" => return ["true", "false"].contains(&value),
            "hookspath" => {
                return !value.is_empty()
                    && !value.starts_with(['~', '%', ':'])
                    && is_absent(&root.join(value).join(HOOK));
            }
            _ => {}
        }
    }
    is_listed(setting)
}

fn is_listed(setting: &Setting) -> bool {
    INERT.iter().any(|(section, has_subsection, keys)| {
        *section == setting.section
            && *has_subsection == setting.subsection.is_some()
            && (keys.is_empty() || keys.split(' ').any(|key| key == setting.key))
    })
}

#[cfg(test)]
mod tests;
