//! Additions to the OpenAPI description that apply to every operation.

use utoipa::Modify;
use utoipa::openapi::path::{Operation, Parameter, PathItem};
use utoipa::openapi::schema::{Schema, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};

fn operations(openapi: &mut OpenApi) -> impl Iterator<Item = (&str, &mut Operation)> {
    openapi.paths.paths.iter_mut().flat_map(|(path, item)| {
        let PathItem { get, post, put, patch, delete, .. } = item;
        let all = [get, post, put, patch, delete];
        all.into_iter().filter_map(|operation| Some((path.as_str(), operation.as_mut()?)))
    })
}

/// Adds the token, and the error responses of the guard.
pub(super) struct GuardResponses;

impl Modify for GuardResponses {
    fn modify(&self, openapi: &mut OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        if let Some(components) = openapi.components.as_mut() {
            components.add_security_scheme("token", SecurityScheme::Http(bearer));
        }
        for (path, operation) in operations(openapi) {
            let with_body = operation.request_body.is_some();
            let with_token = !matches!(path, "/api/health" | "/api/ready");
            let mut add = |status: &str, description: &str| {
                operation.responses.responses.insert(status.to_owned(), RefOr::T(refusal(description)));
            };
            add("403", "Request from a web page of a foreign origin");
            add("421", "`Host` is not an allowed name");
            add("429", "Too many requests from one address");
            if with_token {
                add("401", "Token missing or wrong");
            }
            if with_body {
                add("408", "Request body not received in time");
                add("413", "Request body too large");
            }
        }
    }
}

fn refusal(description: &str) -> Response {
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
    ResponseBuilder::new().description(description).content("application/json", body).build()
}

/// Removes null from the types of optional parameters: a query or a header has no null.
pub(super) struct ParametersWithoutNull;

impl Modify for ParametersWithoutNull {
    fn modify(&self, openapi: &mut OpenApi) {
        for (_, operation) in operations(openapi) {
            operation.parameters.iter_mut().flatten().for_each(remove_null);
        }
    }
}

fn remove_null(parameter: &mut RefOr<Parameter>) {
    let RefOr::T(parameter) = parameter else { return };
    let Some(RefOr::T(Schema::Object(object))) = &mut parameter.schema else { return };
    if let SchemaType::Array(types) = &mut object.schema_type {
        types.retain(|kind| *kind != Type::Null);
    }
}
