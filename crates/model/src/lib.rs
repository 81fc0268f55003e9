//! Model providers: requests, answers, and the wire formats between them.
//!
//! A [`Model`] answers one [`Request`] at a time, streamed or not. It knows nothing about sessions, clients
//! or the meaning of tools: it translates messages to HTTP and back, and reports failures precisely.
//!
//! * [`chat`]: OpenAI's chat completions, supported by almost every provider.
//! * [`responses`]: OpenAI's Responses.
//! * [`messages`]: Anthropic's Messages.
//! * [`demo`]: a built-in model without a network, so that Baton works on a fresh machine.
//! * [`replay`]: recording answers, and answering from a recording.
//! * [`retry`]: which failures to retry, and when.
//! * [`estimate`]: approximate token counts.
//! * [`catalog`]: the models of an endpoint.
//! * [`citations`]: citations of an answer, in the form for SDKs.
//! * [`endpoint`] and [`http`]: the address of a provider, and the transport to it.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod calls;
pub mod catalog;
pub mod chat;
pub mod citations;
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
mod usage;

use std::future::Future;
use std::ops::{Range, RangeInclusive};
use std::pin::Pin;
use std::sync::Arc;

use baton_protocol::Json;

pub use error::{ErrorKind, ModelError};

/// A request to a model.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The model's name on the wire.
    pub model: String,
    /// The whole conversation; starts with the system message, if there is one.
    pub messages: Vec<Arc<Message>>,
    /// The tools that the model may call.
    pub tools: Arc<[ToolDef]>,
    /// Whether to stream the answer.
    pub stream: bool,
    /// Reasoning effort, in the provider's terms.
    pub reasoning_effort: Option<String>,
    /// Limit on the tokens of the answer, if any.
    pub max_output_tokens: Option<u64>,
    /// Whether the model should cite the documents that it was given.
    pub citations: bool,
    /// Additional HTTP headers of this request.
    pub headers: Vec<(String, String)>,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// System instructions.
    System(String),
    /// A message from the user's side.
    User(Vec<Part>),
    /// A message of the model.
    Assistant {
        /// Its text, possibly empty.
        text: String,
        /// Its tool calls.
        tool_calls: Vec<ToolCall>,
        /// Opaque provider state to send back.
        reasoning_opaque: Option<String>,
    },
    /// The result of a tool call.
    Tool {
        /// The id of the call.
        call_id: String,
        /// The text.
        content: String,
        /// Whether the tool failed.
        failed: bool,
    },
}

/// A part of a user message.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// An image, in base64.
    Image {
        /// Media type, such as `image/png`.
        mime_type: String,
        /// Base64.
        data: Arc<str>,
    },
    /// A document, such as a PDF, in base64.
    Document {
        /// Media type, such as `application/pdf`.
        mime_type: String,
        /// File name, for people.
        title: Option<String>,
        /// Base64.
        data: Arc<str>,
    },
}

/// A tool call of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The model's id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, exactly as the model wrote them. Usually JSON, but not always.
    pub arguments: String,
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDef {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Json,
}

/// The answer of a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelResponse {
    /// Text, possibly empty.
    pub text: String,
    /// Reasoning, where the provider returns it.
    pub reasoning: Option<String>,
    /// Opaque provider state to send back with the message.
    pub reasoning_opaque: Option<String>,
    /// Tool calls.
    pub tool_calls: Vec<ToolCall>,
    /// Citations, where the provider returns them.
    pub citations: Vec<Citation>,
    /// Why the model stopped.
    pub finish: Finish,
    /// Token usage, where the provider reports it.
    pub usage: Option<Usage>,
    /// The model that answered, as named by the provider.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The provider's id of the HTTP request.
    pub request_id: Option<String>,
    /// The transport of the answer.
    pub carrier: Carrier,
}

/// The transport of a request and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carrier {
    /// An HTTP request and its response.
    #[default]
    Http,
    /// A WebSocket, whose messages are the events of the answer.
    WebSocket,
}

/// A citation: the source of a part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Citation {
    /// The cited part: its range in the answer's text, in characters.
    pub span: Range<usize>,
    /// Title of the source.
    pub title: Option<String>,
    /// URL of the source, if it is on the web.
    pub url: Option<String>,
    /// The quoted text.
    pub quote: Option<String>,
    /// Position of the quote in the source.
    pub place: Option<SourceRange>,
    /// The citation as the provider wrote it.
    pub raw: Json,
}

/// A range in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceRange {
    /// Characters of its text, counted from 0, end excluded.
    Chars(Range<u64>),
    /// Pages, counted from 1, end included.
    Pages(RangeInclusive<u64>),
    /// Blocks of its content, counted from 0, end excluded.
    Blocks(Range<u64>),
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Finish {
    /// The answer is complete.
    #[default]
    Stop,
    /// The model calls tools.
    ToolCalls,
    /// The token limit was reached.
    Length,
    /// The provider's content filter stopped it.
    ContentFilter,
    /// Another reason, as named by the provider.
    Other(String),
}

impl Finish {
    /// Returns the name in chat completions, which clients receive.
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

/// Token usage of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// All input tokens, cached or not.
    pub input: u64,
    /// All output tokens.
    pub output: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Output tokens of reasoning.
    pub reasoning: u64,
}

/// A part of a streamed answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// More of a tool call.
    ToolCall {
        /// The id of the call.
        id: String,
        /// The tool.
        name: String,
        /// More of its arguments.
        arguments: String,
    },
    /// Total number of bytes received. Follows the parts that arrived together, so a receiver can flush them
    /// now.
    Progress {
        /// The number of bytes.
        bytes: u64,
    },
    /// Discards all parts so far: the request failed and is retried from the start.
    Restart,
}

/// The receiver of a streamed response.
pub type Sink<'a> = &'a mut (dyn FnMut(Delta) + Send);

/// A pending response. Dropping it cancels the request.
pub type Responding<'a> = Pin<Box<dyn Future<Output = Result<ModelResponse, ModelError>> + Send + 'a>>;

/// A model.
pub trait Model: Send + Sync {
    /// Calls the model once. Parts of the response go to `sink` as they arrive, if the request is streamed.
    fn respond<'a>(&'a self, request: &'a Request, sink: Sink<'a>) -> Responding<'a>;

    /// Returns the path of the wire API; clients receive it with the usage. SDKs know `/chat/completions`,
    /// `/responses` and `/v1/messages`, and drop the event with any other, so a model without a wire names
    /// the first.
    fn endpoint(&self) -> &'static str;
}
