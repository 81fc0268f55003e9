//! Requests for a token, as SDK clients expect them.

use baton_mcp::{Challenge, without_credentials};
use serde_json::{Map, Value, json};

/// Parameters of a challenge that clients are shown, with their names there.
const PARAMETERS: [(&str, &str); 3] =
    [("resource_metadata", "resourceMetadataUrl"), ("scope", "scope"), ("error", "error")];

/// Returns the data of a request for a token. Only parameters that the server sent are included.
pub(super) fn authorization(server: &str, challenge: &Challenge, metadata: Option<String>) -> Value {
    let parameters: Map<String, Value> = PARAMETERS
        .iter()
        .filter_map(|(name, shown)| Some(((*shown).to_owned(), json!(challenge.parameter(name)?))))
        .collect();
    let headers: Vec<Value> =
        challenge.headers.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    let mut data = json!({
        "serverName": server,
        "serverUrl": without_credentials(&challenge.url).as_str(),
        "wwwAuthenticateParams": parameters,
        "httpResponse": { "statusCode": challenge.status, "headers": headers, "body": challenge.body },
    });
    if let Some(metadata) = metadata {
        data["resourceMetadata"] = json!(metadata);
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parameters_of_the_challenge_are_shown() {
        let headers = vec![("WWW-Authenticate".to_owned(), "Bearer error=\"invalid_token\"".to_owned())];
        let url = "http://me:pass@x/?sig=secret".parse().unwrap();
        let challenge = Challenge { url, status: 401, headers, body: String::new() };
        let data = authorization("s", &challenge, None);
        assert_eq!(data["wwwAuthenticateParams"], json!({ "error": "invalid_token" }));
        assert_eq!(data["httpResponse"]["statusCode"], 401);
        assert!(data.get("resourceMetadata").is_none());
        assert_eq!(data["serverUrl"], "http://x/", "without credentials");
    }
}
