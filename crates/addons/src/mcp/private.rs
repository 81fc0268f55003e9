//! MCP servers of sub-agents: servers of a custom agent that only its own conversations use.
//!
//! They are started with the agent's first task, are not listed among the session's servers, and end with the session.
//! Their tools go through the same policy as all others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use baton_mcp::{Host, OfferedTool, merge};
use baton_protocol::agent::CustomAgent;
use baton_settings::Settings;

use super::SessionMcp;
use super::sources::of_agent;

impl SessionMcp {
    /// Starts the servers of an agent that are not connected, and waits for them. An agent without servers costs nothing.
    pub async fn ready_for(&self, agent: &CustomAgent, settings: &Settings, cwd: PathBuf) {
        let wanted = merge(of_agent(agent));
        if wanted.is_empty() {
            return;
        }
        let host = {
            let mut hosts = self.private.lock().await;
            match hosts.get(&agent.name).cloned() {
                Some(host) => {
                    host.replace(wanted).await;
                    host
                }
                None => {
                    self.note_tag().await;
                    let disabled: BTreeSet<String> = settings.disabled_mcp_servers.iter().cloned().collect();
                    let host = Arc::new(Host::new(self.options(cwd), wanted, disabled));
                    hosts.insert(agent.name.clone(), host.clone());
                    self.known_private().insert(agent.name.clone(), host.clone());
                    host
                }
            }
        };
        host.start();
        tokio::select! {
            () = host.settle() => {}
            () = self.release.notified() => {}
        }
        host.refresh().await;
    }

    /// Returns the tools that a conversation may call: those of the agent's own servers, then those of the session's.
    pub fn offered_to(&self, agent: Option<&str>) -> Vec<OfferedTool> {
        let mut offered = self.private_host(agent).map(|host| host.offered()).unwrap_or_default();
        for tool in self.offered() {
            if offered.iter().all(|known| known.name != tool.name) {
                offered.push(tool);
            }
        }
        offered
    }

    /// Finds a tool that a conversation may call, by its name.
    pub fn find_for(&self, agent: Option<&str>, name: &str) -> Option<OfferedTool> {
        self.private_host(agent).and_then(|host| host.find(name)).or_else(|| self.find(name))
    }

    /// Ends the servers of all agents. Returns whether there were any.
    pub(super) async fn close_private(&self) -> bool {
        let hosts: BTreeMap<String, Arc<Host>> = std::mem::take(&mut *self.private.lock().await);
        self.known_private().clear();
        for host in hosts.values() {
            host.close().await;
        }
        !hosts.is_empty()
    }

    fn private_host(&self, agent: Option<&str>) -> Option<Arc<Host>> {
        self.known_private().get(agent?).cloned()
    }
}
