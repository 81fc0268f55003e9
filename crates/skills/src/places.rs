//! The directories in which skills and agents are looked for, in the order of their precedence.

use std::path::{Path, PathBuf};

use crate::skill::{SkillOrigin, SkillSource};

/// Directories of skills in a project. New skills are created in the first.
const PROJECT_SKILLS: [&str; 3] = [".github/skills", ".agents/skills", ".claude/skills"];
/// Directories of agents in a project. New agents are created in the first.
const PROJECT_AGENTS: [&str; 2] = [".github/agents", ".claude/agents"];
/// Levels of directories above the working directory that are looked at.
const MOST_LEVELS: usize = 32;

/// A directory that may have skills, and may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchedDirectory {
    /// The directory.
    pub path: PathBuf,
    /// Where its skills come from.
    pub origin: SkillOrigin,
    /// Whether new skills of this kind belong here.
    pub is_preferred: bool,
}

/// A directory that may have agents, and may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPlace {
    /// The directory.
    pub path: PathBuf,
    /// The project that it belongs to; none for the user's own.
    pub project: Option<PathBuf>,
    /// Whether new agents of this kind belong here.
    pub is_preferred: bool,
}

/// Directories to search.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SkillPlaces {
    /// Directories that a client named.
    pub custom: Vec<PathBuf>,
    /// Projects: directories, each with the root of its repository, if it is in one.
    pub projects: Vec<(PathBuf, Option<PathBuf>)>,
    /// Home of the server, if the user's own skills are wanted.
    pub home: Option<PathBuf>,
    /// Home directory of the user, if the user's own skills are wanted.
    pub user: Option<PathBuf>,
}

/// Returns the directories of skills.
#[must_use]
pub fn skill_places(wanted: &SkillPlaces) -> Vec<SearchedDirectory> {
    let mut places: Vec<SearchedDirectory> = Vec::new();
    for path in &wanted.custom {
        places.push(SearchedDirectory {
            path: path.clone(),
            origin: SkillSource::Custom.into(),
            is_preferred: false,
        });
    }
    for (project, root) in &wanted.projects {
        for (level, directory) in levels(project, root.as_deref()).into_iter().enumerate() {
            let source = if level == 0 { SkillSource::Project } else { SkillSource::Inherited };
            for (n, name) in PROJECT_SKILLS.iter().enumerate() {
                places.push(SearchedDirectory {
                    path: directory.join(name),
                    origin: SkillOrigin { source, project: Some(project.clone()), plugin: None },
                    is_preferred: level == 0 && n == 0,
                });
            }
        }
    }
    if let Some(home) = &wanted.home {
        let origin = SkillSource::PersonalCopilot.into();
        places.push(SearchedDirectory { path: home.join("skills"), origin, is_preferred: true });
    }
    if let Some(user) = &wanted.user {
        for name in [".agents/skills", ".claude/skills"] {
            let origin = SkillSource::PersonalAgents.into();
            places.push(SearchedDirectory { path: user.join(name), origin, is_preferred: false });
        }
    }
    places
}

/// Returns the directories of agents: those of projects, and the user's own in the home of the server.
#[must_use]
pub fn agent_places(projects: &[PathBuf], home: Option<&Path>) -> Vec<AgentPlace> {
    let mut places = Vec::new();
    for project in projects {
        for (n, name) in PROJECT_AGENTS.iter().enumerate() {
            let (path, project) = (project.join(name), Some(project.clone()));
            places.push(AgentPlace { path, project, is_preferred: n == 0 });
        }
    }
    places.extend(home.map(|home| AgentPlace {
        path: home.join("agents"),
        project: None,
        is_preferred: true,
    }));
    places
}

/// Returns a directory and those above it, up to the root of its repository.
fn levels(directory: &Path, root: Option<&Path>) -> Vec<PathBuf> {
    let Some(root) = root.filter(|root| directory.starts_with(root)) else {
        return vec![directory.to_owned()];
    };
    let above = directory.ancestors().take(MOST_LEVELS).take_while(|level| level.starts_with(root));
    above.map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_ordered_by_precedence() {
        let places = skill_places(&SkillPlaces {
            custom: vec!["/c".into()],
            projects: vec![("/r/a".into(), Some("/r".into()))],
            home: Some("/h".into()),
            user: Some("/u".into()),
        });
        let shown: Vec<(&str, &str)> =
            places.iter().map(|place| (place.path.to_str().unwrap(), place.origin.source.as_str())).collect();
        assert_eq!(
            shown,
            [
                ("/c", "custom"),
                ("/r/a/.github/skills", "project"),
                ("/r/a/.agents/skills", "project"),
                ("/r/a/.claude/skills", "project"),
                ("/r/.github/skills", "inherited"),
                ("/r/.agents/skills", "inherited"),
                ("/r/.claude/skills", "inherited"),
                ("/h/skills", "personal-copilot"),
                ("/u/.agents/skills", "personal-agents"),
                ("/u/.claude/skills", "personal-agents"),
            ]
        );
        assert_eq!(places.iter().filter(|place| place.is_preferred).count(), 2);
    }

    #[test]
    fn directories_outside_the_repository_are_not_looked_at() {
        assert_eq!(levels(Path::new("/a/b"), None), [Path::new("/a/b")]);
        assert_eq!(levels(Path::new("/a/b"), Some(Path::new("/c"))), [Path::new("/a/b")]);
        assert_eq!(levels(Path::new("/a/b"), Some(Path::new("/a/b"))), [Path::new("/a/b")]);
    }
}
