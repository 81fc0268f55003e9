//! Routes of the HTTP doors whose handlers have no types of their own.
//!
//! A route of `axum` is generated for the type of its handler, with services, clones and boxes around it. Here a handler becomes a
//! [`RouteHandler`] first, so that all of that exists once for each door. Two methods of one path are merged:
//! `get(show).merge(delete(remove))`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{self, MethodRouter};

type Responding = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler without a type of its own.
#[derive(Clone)]
struct RouteHandler<S>(Arc<dyn Fn(Request, S) -> Responding + Send + Sync>);

/// Tells `axum`'s functions, which implement [`Handler`] for their extractors, from a [`RouteHandler`].
struct Erased;

impl<S: Clone + 'static> Handler<Erased, S> for RouteHandler<S> {
    type Future = Responding;

    fn call(self, request: Request, state: S) -> Responding {
        (self.0)(request, state)
    }
}

fn erase<H, T, S>(handler: H) -> RouteHandler<S>
where
    H: Handler<T, S, Future = Responding>,
{
    RouteHandler(Arc::new(move |request, state| handler.clone().call(request, state)))
}

macro_rules! methods {
    ($($(#[$about:meta])* $name:ident)*) => {$(
        $(#[$about])*
        pub fn $name<H, T, S>(handler: H) -> MethodRouter<S>
        where
            H: Handler<T, S, Future = Responding>,
            T: 'static,
            S: Clone + Send + Sync + 'static,
        {
            routing::$name(erase(handler))
        }
    )*};
}

methods! {
    /// Routes `GET` and `HEAD`.
    get
    /// Routes `POST`.
    post
    /// Routes `PUT`.
    put
    /// Routes `PATCH`.
    patch
    /// Routes `DELETE`.
    delete
}
