//! The engines by name, with their settings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::locks::Locks;
use crate::probe::{self, CachedVersion};
use crate::program::{Program, ProgramInfo};
use crate::programs::PROGRAMS;
use crate::thread::ProgramConversation;
use crate::{Engine, EngineConversation, EngineSettings, Installation, ThreadSpec};

/// Resources of the machine that engines use.
#[derive(Debug, Clone)]
pub struct EngineResources {
    /// The environment of programs, PATH and HOME at least. Settings can override it. Nothing is inherited from this
    /// process.
    pub environment: Vec<(OsString, OsString)>,
    /// Directory for small files that programs read. Created on demand.
    pub scratch: PathBuf,
}

/// All engines, installed or not.
pub struct EngineRegistry {
    engines: Vec<Arc<dyn Engine>>,
}

impl EngineRegistry {
    /// Creates all engines: the built-in ones, and one for each name in the settings that begins with
    /// [`ACP_PREFIX`](crate::ACP_PREFIX). Settings for other names are ignored.
    #[must_use]
    pub fn new(mut settings: BTreeMap<String, EngineSettings>, resources: EngineResources) -> Self {
        let resources = Arc::new(resources);
        let configured: Vec<_> = settings.keys().filter_map(|name| ProgramInfo::configured(name)).collect();
        let engines = PROGRAMS.iter().cloned().chain(configured).map(|info| {
            let program = Program {
                settings: settings.remove(info.name).unwrap_or_default(),
                resources: Arc::clone(&resources),
                locks: Locks::default(),
                info,
            };
            Arc::new(ProgramEngine { program: Arc::new(program), version: Mutex::default() })
                as Arc<dyn Engine>
        });
        Self { engines: engines.collect() }
    }

    /// Returns all engines, in the order in which they are displayed.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Engine>> {
        self.engines.iter()
    }

    /// Returns the engine of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Engine>> {
        self.all().find(|engine| engine.name() == name)
    }

    /// Returns the engine that a session's model names, and the engine's own name of the model: `claude/opus` is claude
    /// with its model `opus`, `claude` is claude with its default. None if the model names no engine.
    #[must_use]
    pub fn of_model<'a>(&self, model: &'a str) -> Option<(&Arc<dyn Engine>, Option<&'a str>)> {
        let (name, rest) = match model.split_once('/') {
            Some((name, rest)) => (name, Some(rest).filter(|rest| !rest.is_empty())),
            None => (model, None),
        };
        Some((self.get(name)?, rest))
    }
}

/// An engine that runs a program.
struct ProgramEngine {
    program: Arc<Program>,
    version: Mutex<Option<CachedVersion>>,
}

impl Engine for ProgramEngine {
    fn name(&self) -> &'static str {
        self.program.info.name
    }

    fn active_files(&self) -> Vec<&'static str> {
        self.program.info.active_files().collect()
    }

    fn probe<'a>(&'a self) -> Pin<Box<dyn Future<Output = Installation> + Send + 'a>> {
        Box::pin(async {
            // Held while the program runs, so that concurrent probes start it once.
            let mut version = self.version.lock().await;
            probe::probe(&self.program, &mut version).await
        })
    }

    fn thread(&self, spec: ThreadSpec) -> Box<dyn EngineConversation> {
        Box::new(ProgramConversation::new(Arc::clone(&self.program), spec))
    }
}
