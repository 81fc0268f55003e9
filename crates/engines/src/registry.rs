//! The engines by name, as the configuration sets them up.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Mutex;

use crate::locks::Locks;
use crate::probe::{self, Probed};
use crate::program::{Facts, PROGRAMS, Program};
use crate::thread::Conversation;
use crate::{Engine, EngineSettings, Probe, Thread, ThreadSpec};

/// What engines may use of the machine.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The variables that programs see, before their own settings: PATH and HOME at least. Nothing is taken from the
    /// environment of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// A directory for small files that programs need, made when it is needed.
    pub scratch: PathBuf,
}

/// All engines, installed or not.
pub struct Registry {
    engines: Vec<Arc<dyn Engine>>,
}

impl Registry {
    /// Sets all engines up: those that are known, and one for each name of the settings that begins with
    /// [`ACP_PREFIX`](crate::ACP_PREFIX). Settings for other names are left alone.
    #[must_use]
    pub fn new(mut settings: BTreeMap<String, EngineSettings>, surroundings: Surroundings) -> Self {
        let surroundings = Arc::new(surroundings);
        let configured: Vec<Facts> = settings.keys().filter_map(|name| Facts::configured(name)).collect();
        let engines = PROGRAMS.into_iter().chain(configured).map(|facts| {
            let program = Program {
                settings: settings.remove(facts.name).unwrap_or_default(),
                surroundings: Arc::clone(&surroundings),
                locks: Locks::default(),
                facts,
            };
            Arc::new(Installed { program: Arc::new(program), probed: Mutex::default() }) as Arc<dyn Engine>
        });
        Self { engines: engines.collect() }
    }

    /// All engines, in the order in which people are shown them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Engine>> {
        self.engines.iter()
    }

    /// The engine of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Engine>> {
        self.all().find(|engine| engine.name() == name)
    }

    /// The engine that a session's model names, and the model in that engine's own words: `claude/opus` is claude with
    /// its model `opus`, `claude` is claude with its default. None: no engine is meant.
    #[must_use]
    pub fn of_model<'a>(&self, model: &'a str) -> Option<(&Arc<dyn Engine>, Option<&'a str>)> {
        let (name, rest) = match model.split_once('/') {
            Some((name, rest)) => (name, Some(rest).filter(|rest| !rest.is_empty())),
            None => (model, None),
        };
        Some((self.get(name)?, rest))
    }
}

struct Installed {
    program: Arc<Program>,
    probed: Mutex<Option<Probed>>,
}

impl Engine for Installed {
    fn name(&self) -> &'static str {
        self.program.facts.name
    }

    fn probe<'a>(&'a self) -> Pin<Box<dyn Future<Output = Probe> + Send + 'a>> {
        Box::pin(async {
            // Held while the program runs, so that many who ask at once start it once.
            let mut probed = self.probed.lock().await;
            probe::probe(&self.program, &mut probed).await
        })
    }

    fn thread(&self, spec: ThreadSpec) -> Box<dyn Thread> {
        Box::new(Conversation::new(Arc::clone(&self.program), spec))
    }
}
