//! Where sandboxed programs may connect: strict host names, the resolver, the proxy.
//!
//! * [`Target`] is the parsed destination of a request, from the only parser of authorities ([`Host::parse`]).
//! * [`resolve`] turns a host into the addresses to connect to, and refuses private ones that nobody approved.
//! * [`Proxy`] serves HTTP requests and tunnels of programs that have no other way to the network.
//!
//! Nothing here decides whether a host may be reached. A [`Gate`] does, with the policy and the requests of a session, which
//! this crate does not know.

mod body;
mod gate;
mod host;
mod proxy;
mod relay;
mod resolve;
mod server_name;

pub use self::gate::{Admission, Gate};
pub use self::host::{BadTarget, Host, Target, Transport};
pub use self::proxy::{Proxy, ProxyOptions};
pub use self::resolve::{Lookup, Reach, Refusal, SystemLookup, resolve};
