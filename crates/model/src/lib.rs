//! Models: what is asked, what is answered, and the wires in between.
//!
//! A [`Model`] answers one [`Request`] at a time, streamed or not. It knows nothing of sessions, tools'
//! meaning or clients: it turns messages into HTTP and back, and says clearly what went wrong when it did.
//!
//! * [`chat`]: OpenAI's chat completions, spoken by almost everybody.
//! * [`responses`]: OpenAI's Responses.
//! * [`messages`]: Anthropic's Messages.
//! * [`demo`]: a built-in model without a network, so that a fresh machine has something to show.
//! * [`replay`]: answers from a recording, and how it is made.
//! * [`retry`]: when to ask again, and when not.
//! * [`estimate`]: how many tokens a text is, roughly.
//! * [`catalog`]: which models an endpoint offers.
//! * [`endpoint`] and [`http`]: where a provider is, and how it is reached.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod calls;
pub mod catalog;
pub mod chat;
pub mod demo;
pub mod endpoint;
mod error;
pub mod estimate;
mod exchange;
mod failure;
pub mod http;
mod lenient;
pub mod messages;
mod opaque;
pub mod replay;
pub mod responses;
pub mod retry;
pub mod sse;
mod tokens;

use std::future::Future;
use std::ops::{Range, RangeInclusive};
use std::pin::Pin;
use std::sync::Arc;

use baton_protocol::Json;

pub use error::{ErrorKind, ModelError};

/// One question to a model.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The model's name on the wire.
    pub model: String,
    /// The whole conversation; the first message is the system's, if there is one.
    pub messages: Vec<Arc<Message>>,
    /// What the model may call.
    pub tools: Arc<[ToolDef]>,
    /// Whether the answer is wanted in pieces.
    pub stream: bool,
    /// How hard to think, in the provider's own words.
    pub reasoning_effort: Option<String>,
    /// A limit for the answer, where one is set.
    pub max_output_tokens: Option<u64>,
    /// Whether the model should say where in the documents it is given it found what it says.
    pub citations: bool,
    /// Further HTTP headers of this request.
    pub headers: Vec<(String, String)>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Standing instructions.
    System(String),
    /// What a user, or somebody on the user's side, says.
    User(Vec<Part>),
    /// What the model said.
    Assistant {
        /// Its text, possibly empty.
        text: String,
        /// The calls it made.
        tool_calls: Vec<ToolCall>,
        /// Opaque state of the provider, to be sent back.
        reasoning_opaque: Option<String>,
    },
    /// What a tool returned.
    Tool {
        /// For which call.
        call_id: String,
        /// The text.
        content: String,
        /// Whether the tool failed.
        failed: bool,
    },
}

/// A piece of a user's message.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// An image, in base64.
    Image {
        /// Such as `image/png`.
        mime_type: String,
        /// Base64.
        data: Arc<str>,
    },
    /// A document, such as a PDF, in base64.
    Document {
        /// Such as `application/pdf`.
        mime_type: String,
        /// What people call it.
        title: Option<String>,
        /// Base64.
        data: Arc<str>,
    },
}

/// A call that the model makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The model's name for it.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// The arguments, exactly as the model wrote them. Usually JSON; sometimes not.
    pub arguments: String,
}

/// A tool that the model is told about.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDef {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Json,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// Text, possibly empty.
    pub text: String,
    /// What it thought, where it says so.
    pub reasoning: Option<String>,
    /// Opaque state of the provider, to be sent back with the message.
    pub reasoning_opaque: Option<String>,
    /// The calls it makes.
    pub tool_calls: Vec<ToolCall>,
    /// Where it found what it says, where it says so.
    pub citations: Vec<Citation>,
    /// Why it stopped.
    pub finish: Finish,
    /// What it cost, where the provider says so.
    pub usage: Option<Usage>,
    /// The model that answered, as the provider names it.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The provider's id of the HTTP request.
    pub request_id: Option<String>,
    /// What it travelled on.
    pub carrier: Carrier,
}

/// What a question and its answer travel on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carrier {
    /// A request and its response.
    #[default]
    Http,
    /// A WebSocket, on which the events of an answer are messages.
    WebSocket,
}

/// Where a piece of an answer was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Citation {
    /// The piece: where it begins and ends in the answer's text, in characters.
    pub span: Range<usize>,
    /// What the source is called.
    pub title: Option<String>,
    /// Where the source is, if it is on the web.
    pub url: Option<String>,
    /// What stands there.
    pub quote: Option<String>,
    /// Where in the source it stands.
    pub place: Option<Place>,
    /// All of it, as the provider wrote it.
    pub raw: Json,
}

/// A place in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Characters of its text, counted from 0, the last one excluded.
    Chars(Range<u64>),
    /// Pages, counted from 1, the last one included.
    Pages(RangeInclusive<u64>),
    /// Blocks of its content, counted from 0, the last one excluded.
    Blocks(Range<u64>),
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Finish {
    /// It had said all.
    #[default]
    Stop,
    /// It wants tools.
    ToolCalls,
    /// It ran into the limit of tokens.
    Length,
    /// The provider's filter stopped it.
    ContentFilter,
    /// Anything else, in the provider's words.
    Other(String),
}

impl Finish {
    /// The name on the wire of chat completions, which clients are shown.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Other(reason) => reason,
        }
    }
}

/// What an answer cost, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// All that was read, cached or not.
    pub input: u64,
    /// All that was written.
    pub output: u64,
    /// Of the input: read from a cache.
    pub cache_read: u64,
    /// Of the input: written to a cache.
    pub cache_write: u64,
    /// Of the output: thinking.
    pub reasoning: u64,
}

/// A piece of an answer, as it arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More thinking.
    Reasoning(String),
    /// More of a tool call.
    ToolCall {
        /// Which call.
        id: String,
        /// Which tool.
        name: String,
        /// More of its arguments.
        arguments: String,
    },
    /// How many bytes of the answer have arrived in all. Comes after the pieces that arrived with it: whoever shows
    /// pieces can show them together now.
    Progress {
        /// So many.
        bytes: u64,
    },
    /// All pieces so far are void: the request failed on its way and is asked again from the start.
    Restart,
}

/// Where the pieces of a streamed answer go.
pub type Sink<'a> = &'a mut (dyn FnMut(Delta) + Send);

/// An answer, to be awaited. Dropping it cancels the request.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Result<Answer, ModelError>> + Send + 'a>>;

/// Something that answers.
pub trait Model: Send + Sync {
    /// Asks once. Pieces go to `sink` while they arrive, if the request wants them.
    fn ask<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Asking<'a>;

    /// The path of the wire API, such as `/chat/completions`; shown to clients with the usage.
    fn endpoint(&self) -> &'static str;
}
