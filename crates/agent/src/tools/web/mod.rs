//! `web_fetch`: fetches web pages.
//!
//! The tool decides what is fetched and how it is shown. The HTTP client is behind [`Fetch`], because this crate has none.

mod fetch;
mod html;
mod private;
mod tool;

pub use fetch::{AllowedAddresses, Fetch, FetchError, FetchedPage, NoNetwork};
pub use private::PrivateHosts;
pub(crate) use tool::WebFetch;
