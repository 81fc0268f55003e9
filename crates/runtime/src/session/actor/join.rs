//! Attaches clients to a live session.

use std::sync::Arc;

use baton_core::{Arrival, Input, Output, Session};
use baton_handle::{JoinKind, JoinReply, JoinRequest, Port};
use baton_history::record_of;
use baton_protocol::SessionId;
use baton_protocol::event::{FileTrackingBegun, SessionWarning};
use baton_protocol::params::SessionParams;
use baton_settings::{ModelSender, Settings, SettingsEdit};
use baton_store::{NewRecord, Seq, StoreError};
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{Actor, stamp};
use crate::Runtime;

impl Actor {
    /// Attaches a client, unless the store cannot record it.
    pub(super) async fn join(
        &mut self,
        joining: &JoinRequest,
        port: Arc<dyn Port>,
    ) -> Result<JoinReply, StoreError> {
        let arrival = match joining.kind {
            JoinKind::Create => Arrival::Made,
            JoinKind::Resume => self.resumed(&joining.params).await,
        };
        let at = self.head;
        let before = (self.session.clone(), self.settings.clone(), self.layers.clone());
        self.merge(joining);
        self.runtime.note_carrier(&self.session.id, Arc::make_mut(&mut self.settings));
        self.runtime.secrets.add_client_credentials(&joining.params);
        let input = Input::Attach { client: joining.client, profile: joining.profile.clone(), arrival };
        let mut outputs = self.session.step(input, stamp());
        outputs.extend(track_files(&mut self.session, &joining.params));
        let records: Vec<NewRecord> = outputs.iter().filter_map(record_of).collect();
        let bodies: Vec<Bytes> = records.iter().map(|record| record.body.clone()).collect();
        match self.write(records, false).await {
            Ok(first) => {
                remember_provider(&self.runtime, &self.session.id, &self.settings);
                self.mirror.catch_up(Seq(first.0.saturating_sub(1)));
                // Clients of other servers are joined again by those servers.
                if self.runtime.cluster.is_some() && self.runtime.is_own(joining.client) {
                    self.attached.insert(joining.clone(), port.clone(), at);
                }
                self.hub.attach(joining.client, port);
                self.tools.workflows().join(joining.client, &joining.params);
                self.leave_background(&before.0, &outputs);
                self.act(first, outputs, bodies).await;
                self.mirror.start(&self.session);
                self.show_repairs();
                Ok(JoinReply { at, ..self.joined() })
            }
            Err(error) => {
                (self.session, self.settings, self.layers) = before;
                Err(error)
            }
        }
    }

    /// Adds what a client brings to the settings.
    fn merge(&mut self, joining: &JoinRequest) {
        let JoinRequest { client, params, legacy, returning, .. } = joining;
        match (&mut self.layers, returning) {
            (None, _) => Arc::make_mut(&mut self.settings).merge(*client, params, *legacy),
            (Some(layers), None) => layers.join(self.head.0, *client, params, *legacy),
            (Some(layers), Some(returning)) => {
                layers.rejoin(returning.joined_at.0, *client, params, *legacy);
                layers.restore(&returning.changes);
                let edits = returning.changes.iter().map(|change| &change.edit);
                self.runtime.secrets.add_keys_of(edits.flat_map(SettingsEdit::providers));
            }
        }
        self.sum_up();
    }

    /// Warns the first client of a session whose history is damaged. Not recorded: whenever the session is opened, the
    /// damage is found again.
    fn show_repairs(&mut self) {
        if let Some(message) = self.repairs.take() {
            let warning = SessionWarning { warning_type: "history".into(), message, url: None };
            self.hub.show(warning, &CancellationToken::new());
        }
    }

    async fn resumed(&mut self, params: &SessionParams) -> Arrival {
        let context = match &params.working_directory {
            Some(directory) => baton_files::context::of(directory.into()).await,
            None => self.session.durable.facts.context.clone(),
        };
        Arrival::Resumed {
            continue_pending_work: params.continue_pending_work,
            record: !params.disable_resume.unwrap_or(false),
            context: Box::new(context),
            model: params.model.clone(),
            reasoning_effort: params.reasoning_effort.clone(),
        }
    }

    pub(super) fn joined(&self) -> JoinReply {
        JoinReply {
            elicitation: self.session.live.clients.values().any(|client| client.elicitation),
            files: self.tools.files().path().to_owned(),
            at: self.head,
        }
    }
}

impl Runtime {
    /// Notes that a client carries the model requests of a session, if one does: no server may send them instead, also
    /// none that takes the session over. A server that shares no sessions forgets it with the session.
    pub(super) fn note_carrier(&self, session: &SessionId, settings: &mut Settings) {
        if self.cluster.is_some() && self.models.tunnel.is_open(Some(session)) {
            settings.sender = ModelSender::Client;
        }
    }
}

/// Keeps the provider of a session that may leave the memory before its next prompt.
pub(super) fn remember_provider(runtime: &Runtime, session: &SessionId, settings: &Settings) {
    if settings.keep
        && let Some(provider) = &settings.provider
    {
        runtime.provider_cache.set(session, provider);
    }
}

/// Enables file tracking, if the client asks for it. Not after the first prompt: earlier changes could not be undone, and a
/// rewind would restore only some of the files.
pub(super) fn track_files(session: &mut Session, params: &SessionParams) -> Vec<Output> {
    let facts = &session.durable.facts;
    let wanted = params.enable_file_change_tracking.unwrap_or(false);
    if !wanted || facts.tracks_files || facts.title.is_some() {
        return Vec::new();
    }
    session.step(Input::Note { agent: None, body: Box::new(FileTrackingBegun {}.into()) }, stamp())
}
