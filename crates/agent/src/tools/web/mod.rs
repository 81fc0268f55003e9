//! `web_fetch`: reads a page of the web.
//!
//! The tool decides what is fetched and how it is shown. How bytes travel is behind [`Fetch`], because this
//! crate has no HTTP client of its own.

mod fetch;
mod html;
mod private;
mod tool;

pub use fetch::{Fetch, FetchError, NoNetwork, Page, Reach};
pub use private::PrivateHosts;
pub(crate) use tool::WebFetch;
