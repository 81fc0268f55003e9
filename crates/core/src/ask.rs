//! Asks: requests of a door to a session, each with its own reply type.
//!
//! An ask is a value, and its reply type follows from it ([`Asking::Reply`]), so a reply of the wrong kind does not
//! compile. Asks and replies borrow nothing and hold no channel: they can cross a wire. The shell gives each ask an
//! [`AskId`] and delivers the reply that carries the same id; inside a step, [`ReplyTo`] ties the id to the ask's type.
//!
//! A new ask is one entry in the list at the end of this file, and one handler (`impl Serve<_> for Step`) in
//! [`step`](crate::step).

mod prompt;
mod values;

use std::fmt;
use std::marker::PhantomData;

use baton_protocol::event::{AbortReason, HistoryTruncated, Prompt};
use baton_protocol::permission::PermissionRequest;
use baton_protocol::{AgentId, Author, ClientId, EventId, Json, PromptId, RequestId, ToolCallId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use self::values::{
    AgentReport, AnswerOutcome, Change, Elicited, FileVerdict, HostAnswer, LogLevel, RequestAnswer, Withdrawn,
};
use crate::results::{Handoff, TrustTerm};

/// An ask, with the type of its reply.
pub trait Asking: Into<Ask> + Serialize + DeserializeOwned + Send + 'static {
    /// Reply of the session. Sent only when everything that it claims is durable (P1).
    type Reply: Serialize + DeserializeOwned + Send + 'static;

    /// Wraps a reply for [`Output::Reply`](crate::Output::Reply).
    fn reply(reply: Self::Reply) -> Reply;

    /// Unwraps a reply; none if it belongs to another kind of ask.
    fn of(reply: Reply) -> Option<Self::Reply>;
}

/// Why a session refuses an ask, as text for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
#[serde(transparent)]
pub struct Refusal(pub String);

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self(why)
    }
}

/// Id of an ask, chosen by the shell and unique among the asks of a session that have no reply yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AskId(pub u64);

/// Address of the reply to an ask of type `A`.
#[derive(Serialize, Deserialize)]
#[serde(transparent, bound = "")]
pub struct ReplyTo<A> {
    id: AskId,
    #[serde(skip)]
    ask: PhantomData<fn(A)>,
}

impl<A> ReplyTo<A> {
    fn new(id: AskId) -> Self {
        Self { id, ask: PhantomData }
    }

    /// Returns the id of the ask that waits for the reply.
    #[must_use]
    pub fn id(self) -> AskId {
        self.id
    }
}

// Not derived: a derive would demand the same of `A`.
impl<A> Clone for ReplyTo<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for ReplyTo<A> {}

impl<A> PartialEq for ReplyTo<A> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<A> Eq for ReplyTo<A> {}

impl<A> fmt::Debug for ReplyTo<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplyTo").field(&self.id.0).finish()
    }
}

/// Handler of one kind of ask.
pub(crate) trait Serve<A: Asking> {
    /// Acts on the ask. The reply may follow in a later step.
    fn handle(&mut self, to: ReplyTo<A>, ask: A);
}

/// Generates, from a list of `Name { fields } -> Reply`: a struct for each ask, the enums [`Ask`] and [`Reply`], the
/// conversions between them, and the dispatch to the handlers.
///
/// The enums are tagged from outside (`{"abort": {..}}`), because [`Json`] cannot be read from inside a tagged object.
macro_rules! asks {
    ($(
        $(#[$doc:meta])*
        $name:ident { $( $(#[$attribute:meta])* $field:ident: $type:ty ),* $(,)? } -> $reply:ty;
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            pub struct $name {
                $( $(#[$attribute])* pub $field: $type, )*
            }

            impl Asking for $name {
                type Reply = $reply;

                fn reply(reply: $reply) -> Reply {
                    Reply::$name(reply)
                }

                fn of(reply: Reply) -> Option<$reply> {
                    match reply {
                        Reply::$name(reply) => Some(reply),
                        _ => None,
                    }
                }
            }

            impl From<$name> for Ask {
                fn from(ask: $name) -> Self {
                    Self::$name(ask)
                }
            }
        )*

        /// An ask of any kind.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Ask {
            $( $(#[$doc])* $name($name), )*
        }

        /// A reply to an ask of any kind. Each variant replies to the ask of the same name.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "each reply is documented at its ask")]
        pub enum Reply {
            $( $name($reply), )*
        }

        impl Ask {
            /// Names of all asks, in the order of the list.
            pub const NAMES: &[&str] = &[$( stringify!($name) ),*];

            /// Returns the name of the ask, for logs.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$name(_) => stringify!($name), )*
                }
            }

            /// Passes the ask to its handler.
            pub(crate) fn dispatch<H>(self, id: AskId, handler: &mut H)
            where
                $( H: Serve<$name>, )*
            {
                match self {
                    $( Self::$name(ask) => handler.handle(ReplyTo::new(id), ask), )*
                }
            }
        }
    };
}

asks! {
    /// Accepts a prompt into the queue. A prompt whose key was accepted before is that prompt, not a second one.
    SendPrompt {
        /// The prompt.
        #[serde(with = "prompt")]
        prompt: Box<Prompt>,
    } -> PromptId;

    /// Adds a slash command to the queue.
    EnqueueCommand {
        /// The command line, with its slash.
        command: String,
        /// Who sends it, for the history.
        #[serde(default)]
        by: Option<Author>,
    } -> PromptId;

    /// Moves a queued item. Replies whether the queue changed. Refused for an item that is not in the queue.
    MoveQueued {
        /// The item.
        prompt: PromptId,
        /// Its new index; one behind the last item means the end.
        position: usize,
    } -> bool;

    /// Adds a prompt to the queue, at a position.
    InsertPrompt {
        /// The prompt. Its key and delivery mode are ignored.
        #[serde(with = "prompt")]
        prompt: Box<Prompt>,
        /// Its index; one behind the last item means the end.
        position: usize,
    } -> PromptId;

    /// Copies a queued item; the copy follows it directly. Refused for an item that is not in the queue.
    DuplicateQueued {
        /// The item.
        prompt: PromptId,
    } -> PromptId;

    /// Replaces the text of a queued prompt. Replies whether the queue changed. Refused for a command, and for an item
    /// that is not in the queue.
    RewordQueued {
        /// The prompt.
        prompt: PromptId,
        /// Text for the model.
        text: String,
        /// Text for people, if it differs.
        display: Option<String>,
    } -> bool;

    /// Makes a queued prompt join the running turn. Replies whether the queue changed: not if no turn runs. Refused for a
    /// command, and for an item that is not in the queue.
    SteerQueued {
        /// The prompt.
        prompt: PromptId,
    } -> bool;

    /// Pauses or resumes the queue. Resuming also releases items that [`CancelTurn`] holds. Replies whether that changed anything. Refused if a client has paused it already.
    HoldQueue {
        /// Whether to pause.
        hold: bool,
    } -> bool;

    /// Registers or unregisters a client as the runner of queued commands. Ignored if the client is not attached.
    RegisterRunner {
        /// The client.
        client: ClientId,
        /// The client's name of this registration: a client may hold several.
        handle: String,
        /// Whether to register.
        registered: bool,
    } -> ();

    /// Withdraws queued items that have not been started. Replies how many.
    Withdraw {
        /// The items.
        which: Withdrawn,
    } -> usize;

    /// Cancels the running turn and the queue. Replies whether there was anything to cancel.
    Abort {
        /// Why, for the history.
        reason: AbortReason,
        /// Who cancels, for the history.
        by: Option<Author>,
    } -> bool;

    /// Cancels what runs now, and holds the queue: its items stay, and wait until a client releases it with [`HoldQueue`].
    /// Prompts that are sent later are not held. Replies how many items are held; none if nothing runs, or not what is named:
    /// then nothing happens.
    CancelTurn {
        /// What to cancel: the running turn, by its own id or by a prompt that it executes; a prompt that is being prepared;
        /// a command that is being run. None means whatever runs.
        turn: Option<String>,
        /// Why, for the history.
        reason: AbortReason,
        /// Who cancels, for the history.
        by: Option<Author>,
    } -> Option<usize>;

    /// Answers a pending request. The first valid answer counts (P3).
    AnswerRequest {
        /// The request.
        request: RequestId,
        /// The answer.
        answer: Box<RequestAnswer>,
        /// Who answers, for the history.
        by: Option<Author>,
    } -> AnswerOutcome;

    /// Makes a client show a form, and waits for the result. Lost with the asking connection, and no part of a turn.
    /// Refused if no attached client can show forms.
    Elicit {
        /// Text above the form.
        message: String,
        /// JSON Schema of the form.
        schema: Option<Json>,
        /// Source of the form, as text for people.
        source: Option<String>,
        /// Address of a page to open, in place of a form.
        url: Option<String>,
        /// Name by which [`WithdrawAsk`] finds it. A form with a name waits for any client, also one that comes later; one
        /// without is refused if no attached client can show it.
        key: Option<String>,
    } -> Elicited;

    /// Puts an MCP server's request for an answer of the model to the clients, and waits for the answer; none if it was
    /// declined or withdrawn.
    Sample {
        /// The server.
        server: String,
        /// The server's id of the request.
        id: String,
        /// Its parameters.
        request: Json,
        /// Name by which [`WithdrawAsk`] finds it.
        key: String,
    } -> Option<Json>;

    /// Asks a user to consent to something that is no part of a turn, such as starting a program of the workspace. The
    /// policy decides first. Clients see a form if one of them can show forms, and a permission request otherwise. Replies
    /// how long it is allowed; none if it is refused, or the ask is withdrawn.
    Consent {
        /// The action, as shown.
        wants: Box<PermissionRequest>,
        /// The question.
        message: String,
        /// Name by which [`WithdrawAsk`] finds it.
        key: String,
    } -> Option<TrustTerm>;

    /// Withdraws a form or a request of an MCP server, because its call has ended, or stops an awaited sub-agent. Replies whether it was pending.
    WithdrawAsk {
        /// Its name.
        key: String,
    } -> bool;

    /// Requests a login at an MCP server. The request of a server that has one already is that request, with the new
    /// reason. Refused if there are too many.
    RequestLogin {
        /// Name of the server.
        server: String,
        /// Its address.
        url: String,
        /// Why, as SDKs say it.
        reason: String,
    } -> RequestId;

    /// Closes the request for a login at a server. Replies whether it was pending.
    CloseLogin {
        /// Name of the server.
        server: String,
        /// `token` or `cancelled`.
        outcome: String,
    } -> bool;

    /// Asks whether a program in the sandbox may connect to a host. The policy decides first; if it does not, a person is
    /// asked, and the reply follows the answer. The asker may stop waiting; the request stays open.
    RequestHost {
        /// The call that runs the program, if it is known.
        call: Option<ToolCallId>,
        /// Scheme, host and, unless it is the scheme's own, port: `https://example.org`.
        origin: String,
    } -> HostAnswer;

    /// Reports a file that a program in the sandbox has created, that acts, and that was moved away. Replies what happens to
    /// it. Refused if too many files wait for an answer.
    ReportFile {
        /// The call that ran the program, if it is known.
        call: Option<ToolCallId>,
        /// Path of the file, relative to the working directory.
        path: String,
        /// Name of the file among the held files of the session.
        kept: String,
        /// Its content, as text for people; its beginning, if it is long.
        content: String,
    } -> FileVerdict;

    /// Makes a client run one of its slash commands, and waits for it. Replies with its error, if any. Refused if no
    /// attached client has the command.
    InvokeCommand {
        /// Name of the command, without its slash.
        name: String,
        /// Its arguments.
        args: String,
    } -> Option<String>;

    /// Registers a client as a listener for offers of a fallback model: it answers them on its own initiative, and
    /// the session asks no client directly. Replies with the name of the registration.
    ListenForSwitch {
        /// The client.
        client: ClientId,
    } -> String;

    /// Ends a registration of [`ListenForSwitch`]. Replies whether it existed.
    StopListening {
        /// Name of the registration.
        listener: String,
    } -> bool;

    /// Stops all work without calling it cancelled, so that the session can be resumed later.
    Suspend {} -> ();

    /// Changes a setting or records a note. Replies with the event that says so; none if nothing changed.
    Amend {
        /// The change.
        change: Box<Change>,
        /// Who makes it, for the history; none for the server itself.
        #[serde(default)]
        by: Option<Author>,
    } -> Option<EventId>;

    /// Starts a sub-agent in the background. Refused while an engine works on the turn.
    StartAgent {
        /// The task.
        task: Box<Handoff>,
    } -> AgentId;

    /// Starts a sub-agent for code of a client, and waits for its end. The model is not notified of it. Refused while an engine
    /// works on the turn.
    RunAgent {
        /// The task.
        task: Box<Handoff>,
        /// Name by which [`WithdrawAsk`] stops it.
        key: String,
    } -> AgentReport;

    /// Stops a sub-agent. Replies whether it was working.
    StopAgent {
        /// The sub-agent.
        agent: AgentId,
    } -> bool;

    /// Rewinds the conversation. Replies how many public events were removed. Refused while the session is busy, and
    /// for the start of the session.
    Truncate {
        /// The point to rewind to.
        cut: HistoryTruncated,
    } -> u64;
}

impl Amend {
    /// Returns a change that a client makes.
    #[must_use]
    pub fn by(author: Author, change: Change) -> Self {
        Self { change: Box::new(change), by: Some(author) }
    }

    /// Returns a change that the server makes itself.
    #[must_use]
    pub fn unsigned(change: Change) -> Self {
        Self { change: Box::new(change), by: None }
    }
}

#[cfg(test)]
mod tests;
