//! The tools of a live session, and the services that they share.

use std::sync::{Arc, OnceLock};

use baton_addons::mcp::SessionMcp;
use baton_addons::skills::SessionSkills;
use baton_addons::workflows::SessionWorkflows;
use baton_agent::tools::shell::{CommandEnvironment, ShellSettings, Shells};
use baton_agent::tools::sql::{Dependency, SessionDatabase, SqlProgram, Todo};
use baton_agent::tools::web::PrivateHosts;
use baton_agent::tools::{NamedPaths, Services, Toolbox};
use baton_files::SessionFiles;
use baton_handle::Publisher;
use baton_process::Ledger;
use baton_protocol::event::TodosChanged;
use baton_sandbox::Preparing;
use baton_settings::Settings;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::capture::TurnSnapshots;
use super::sandbox::SessionSandbox;
use super::share::FileShare;
use super::user_commands::UserCommands;
use crate::web::NetworkFetch;
use crate::{Options, Runtime};

/// Tools of a session. Their services are created with the first call: a session that calls no tool needs none.
pub(crate) struct SessionTools {
    files: SessionFiles,
    share: Arc<FileShare>,
    toolbox: Toolbox,
    services: Arc<OnceLock<Arc<Services>>>,
    ledger: Ledger,
    pub(super) user_commands: UserCommands,
    /// Snapshots of files in the running turn.
    pub(super) snapshots: TurnSnapshots,
    /// Tracks the tasks of commands that are not awaited.
    pub(super) tasks: TaskTracker,
    mcp: SessionMcp,
    skills: SessionSkills,
    workflows: Arc<SessionWorkflows>,
    sandbox: Arc<SessionSandbox>,
    /// Creates the services. Blocks.
    create: Arc<dyn Fn() -> Services + Send + Sync>,
    /// The options have the environment of commands.
    runtime: Arc<Runtime>,
}

/// What the tools of a session are made of.
pub(crate) struct Parts {
    pub(crate) mcp: SessionMcp,
    pub(crate) skills: SessionSkills,
    pub(crate) workflows: Arc<SessionWorkflows>,
    pub(crate) sandbox: Arc<SessionSandbox>,
    pub(crate) files: SessionFiles,
    pub(crate) share: Arc<FileShare>,
}

impl SessionTools {
    /// Creates the tools of a session.
    pub(crate) fn new(runtime: &Arc<Runtime>, hub: &Publisher, parts: Parts) -> Self {
        let Parts { mcp, skills, workflows, sandbox, files, share } = parts;
        let (runtime, hub, database) = (runtime.clone(), hub.clone(), files.database());
        let (toolbox, ledger, tasks) =
            (runtime.toolbox.clone(), runtime.ledger.clone(), runtime.tasks.clone());
        let own_runtime = runtime.clone();
        let user_commands = UserCommands::new(runtime.stopping.clone());
        let walls = sandbox.clone();
        let create = move || {
            let enclosure = walls.enclosure();
            let hub = hub.clone();
            let todos_changed = Arc::new(move || hub.show(TodosChanged {}, &CancellationToken::new()));
            let settings = ShellSettings {
                environment: CommandEnvironment::of_shells(runtime.options.environment.clone()),
                ledger: runtime.ledger.clone(),
                tasks: runtime.tasks.clone(),
            };
            let shells = Shells::new(settings);
            runtime.ledger.note(shells.tag());
            Services {
                shells,
                database: SessionDatabase::new(
                    database.clone(),
                    sql_program(&runtime, &walls),
                    todos_changed,
                ),
                web: Arc::new(NetworkFetch::new(runtime.models.network())),
                paths: NamedPaths::default(),
                private_hosts: PrivateHosts::default(),
                enclosure,
            }
        };
        Self {
            files,
            share,
            toolbox,
            services: Arc::default(),
            ledger,
            user_commands,
            snapshots: TurnSnapshots::default(),
            tasks,
            mcp,
            skills,
            workflows,
            sandbox,
            create: Arc::new(create),
            runtime: own_runtime,
        }
    }

    /// Returns the files of the session.
    pub(crate) fn files(&self) -> &SessionFiles {
        &self.files
    }

    /// Returns the shared copy of the files.
    pub(crate) fn share(&self) -> &FileShare {
        &self.share
    }

    /// Returns the MCP servers.
    pub(crate) fn mcp(&self) -> &SessionMcp {
        &self.mcp
    }

    /// Returns the sandbox.
    pub(crate) fn sandbox(&self) -> &Arc<SessionSandbox> {
        &self.sandbox
    }

    /// Returns the skills.
    pub(crate) fn skills(&self) -> &SessionSkills {
        &self.skills
    }

    /// Returns the workflows.
    pub(crate) fn workflows(&self) -> &Arc<SessionWorkflows> {
        &self.workflows
    }

    /// Returns the built-in tools.
    pub(super) fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    /// Returns the services, creating them if no tool has used them yet.
    pub(super) async fn services(&self) -> Arc<Services> {
        if let Some(services) = self.services.get() {
            return services.clone();
        }
        let (services, create) = (self.services.clone(), self.create.clone());
        let created =
            tokio::task::spawn_blocking(move || services.get_or_init(|| Arc::new(create())).clone());
        // If the creation panics, it panics here again, in the call, and the call fails.
        created.await.unwrap_or_else(|_| self.created())
    }

    /// Returns the services for commands with the environment of the session.
    pub(super) async fn services_for(&self, settings: &Settings) -> Arc<Services> {
        let services = self.services().await;
        let Options { environment, environment_filter, .. } = &self.runtime.options;
        let variables = environment_filter.environment_of(settings.environment.as_ref(), environment);
        services.shells.set_environment(CommandEnvironment::of_shells(variables));
        services
    }

    /// Returns the services, creating them if needed. Blocks.
    fn created(&self) -> Arc<Services> {
        self.services.get_or_init(|| Arc::new((self.create)())).clone()
    }

    /// Returns the services if a tool has used them.
    pub(super) fn opened(&self) -> Option<&Arc<Services>> {
        self.services.get()
    }

    /// Reads the model's to-do list, with the dependencies between its entries.
    pub(crate) async fn todos(
        &self,
        cancel: &CancellationToken,
    ) -> Result<(Vec<Todo>, Vec<Dependency>), String> {
        self.services().await.database.todos(cancel).await.map_err(|error| error.to_string())
    }

    /// Ends all processes that the session started, and waits until they have exited.
    pub(crate) async fn close(&self) {
        self.workflows.close();
        tokio::join!(self.mcp.close(), self.close_shells());
    }

    async fn close_shells(&self) {
        if let Some(services) = self.services.get() {
            services.shells.end_all().await;
            self.ledger.forget(services.shells.tag());
        }
    }
}

fn sql_program(runtime: &Runtime, sandbox: &Arc<SessionSandbox>) -> Option<SqlProgram> {
    let (program, args) = runtime.options.sql_program.clone()?;
    let sandbox = sandbox.clone();
    let placing = Arc::new(move || -> Preparing {
        let sandbox = sandbox.clone();
        Box::pin(async move { sandbox.place_database().await })
    });
    Some(SqlProgram { program, args, ledger: runtime.ledger.clone(), placing })
}
