//! Extractors that report invalid requests as an [`ApiError`].

use std::marker::PhantomData;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query};
use baton_people::{Identity, Role};
use baton_protocol::{Author, SessionId};
use http::StatusCode;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::error::ApiError;
use baton_wire::SlowBody;

/// Accepts JSON objects only: serde would also read a struct from an array.
#[derive(Debug)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Extracts a JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, ApiError> {
        let read = axum::Json::<Object<T>>::from_request(request, state).await;
        read.map(|axum::Json(Object(body))| Self(body))
            .map_err(|rejection: JsonRejection| refusal(&rejection))
    }
}

fn refusal(rejection: &JsonRejection) -> ApiError {
    if let Some(error) = SlowBody::among_causes_of(rejection) {
        return ApiError::new(StatusCode::REQUEST_TIMEOUT, "too_slow", error.to_string());
    }
    let code = if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE { "too_large" } else { "bad_request" };
    ApiError::new(rejection.status(), code, message(rejection))
}

/// Says what is wrong with a body, and where.
fn message(rejection: &JsonRejection) -> String {
    let problem = |error: &dyn std::error::Error| error.source().unwrap_or(error).to_string();
    match rejection {
        JsonRejection::JsonDataError(error) => format!("malformed request body: {}", problem(error)),
        JsonRejection::JsonSyntaxError(error) => format!("the request body is not JSON: {}", problem(error)),
        JsonRejection::MissingJsonContentType(_) => "send the header `Content-Type: application/json`".into(),
        other => other.body_text(),
    }
}

/// Extracts the sender of a request, as the guard identified it.
pub(crate) struct Caller {
    pub(crate) identity: Identity,
    /// The owner's client, as its requests name it.
    pub(crate) client: Author,
}

/// Header in which a command names the user at its terminal. It counts for clients of the owner only; other people are
/// named by their tokens.
const TERMINAL_HEADER: &str = "x-baton-terminal";

impl Caller {
    /// Returns the author for events.
    pub(crate) fn author(&self) -> Author {
        self.identity.author(self.client.clone())
    }

    /// Refuses a request that needs a stronger role, because of its query.
    pub(crate) fn check(&self, needed: Role) -> Result<(), ApiError> {
        check_role(&self.identity, needed)
    }
}

/// Refuses a sender whose role is too weak.
pub(crate) fn check_role(identity: &Identity, needed: Role) -> Result<(), ApiError> {
    if identity.role() >= needed {
        return Ok(());
    }
    let message = format!("your role is {}; this needs {needed}", identity.role());
    Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message))
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut http::request::Parts, _: &S) -> Result<Self, ApiError> {
        let found = parts.extensions.get::<Identity>().cloned();
        let identity = found.ok_or_else(|| ApiError::internal("the request was not authorised"))?;
        let user = parts.headers.get(TERMINAL_HEADER).map(|user| user.to_str().unwrap_or_default());
        Ok(Self { identity, client: user.map_or_else(Author::http, Author::terminal) })
    }
}

/// Extracts the query.
pub(super) struct QueryParams<T>(pub(super) T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut http::request::Parts, state: &S) -> Result<Self, ApiError> {
        let read = Query::<T>::from_request_parts(parts, state).await;
        read.map(|Query(query)| Self(query))
            .map_err(|rejection: QueryRejection| ApiError::bad_request(rejection.body_text()))
    }
}

/// Extracts the parameters of the path.
pub(super) struct PathParams<T>(pub(super) T);

impl<S: Send + Sync, T: serde::de::DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut http::request::Parts, state: &S) -> Result<Self, ApiError> {
        let read = Path::<T>::from_request_parts(parts, state).await;
        read.map(|Path(path)| Self(path))
            .map_err(|rejection: PathRejection| ApiError::bad_request(rejection.body_text()))
    }
}

/// Parses a session id. An invalid one is reported as not found.
pub(super) fn session_id(text: &str) -> Result<SessionId, ApiError> {
    text.parse().map_err(|_| ApiError::session_not_found(text))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Thing {
        #[serde(rename = "size")]
        _size: u32,
    }

    async fn refused(kind: &str, body: &str) -> String {
        let request = axum::extract::Request::post("/").header("content-type", kind);
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let rejection = axum::Json::<Thing>::from_request(request, &()).await.unwrap_err();
        message(&rejection)
    }

    #[tokio::test]
    async fn malformed_body_is_explained_without_words_of_the_program() {
        let unknown = refused("application/json", r#"{"size": 1, "colour": 2}"#).await;
        assert!(unknown.starts_with("malformed request body: colour: unknown field"), "{unknown}");
        let broken = refused("application/json", r#"{"size""#).await;
        assert!(broken.starts_with("the request body is not JSON: "), "{broken}");
        assert!(refused("text/plain", "{}").await.contains("Content-Type: application/json"));
    }
}
