//! Which role a request needs: the one table for all doors.
//!
//! A request that the table does not know needs the strongest role, so that a new route is closed until it is listed here.

use crate::Role;

/// Access to a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Without authentication: the route reveals nothing, or checks a secret itself.
    Public,
    /// With this role, or a stronger one.
    Needs(Role),
}

/// Role that a client of the JSON-RPC protocol needs: it can register tools and hooks, and send anything.
pub const JSON_RPC: Role = Role::Driver;

/// Role that starts programs.
pub const START: Role = Role::Driver;

/// Returns the role that a method of the JSON-RPC protocol needs. Methods that change the server for all of its users need what
/// the same change needs over HTTP.
#[must_use]
pub fn json_rpc(method: &str) -> Role {
    let reads =
        |method: &str| method.ends_with(".list") || method.ends_with(".browse") || method.ends_with(".get");
    match method {
        "runtime.shutdown" | "account.login" | "account.logout" | "sessions.setAdditionalPlugins" => {
            Role::Admin
        }
        // The client sees the requests of all sessions, with the keys of the server.
        "llmInference.setProvider" => Role::Admin,
        // Also for one session: what is switched off is off for all.
        "extensions.enable"
        | "extensions.disable"
        | "session.extensions.enable"
        | "session.extensions.disable" => Role::Admin,
        _ if ["mcp.config.", "plugins.", "skills.config.", "user.settings."]
            .iter()
            .any(|prefix| method.starts_with(prefix))
            && !reads(method) =>
        {
            Role::Admin
        }
        _ => JSON_RPC,
    }
}

/// Returns the access to a route of the HTTP door; `None` for a route that the table does not list.
#[must_use]
pub fn listed(method: &str, path: &str) -> Option<Access> {
    use Access::{Needs, Public};
    use Role::{Admin, Approver, Driver, Viewer};
    let reads = matches!(method, "GET" | "HEAD");
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    Some(match (method, &*parts) {
        (_, ["api", "health" | "ready"]) if reads => Public,
        ("POST", ["api", "login"]) => Public,
        ("POST", ["api", "logout" | "render"]) => Needs(Viewer),
        (_, ["api", "me" | "events" | "requests" | "models" | "metrics" | "openapi.json" | "search"])
            if reads =>
        {
            Needs(Viewer)
        }
        (_, ["api", "locations"]) if reads => Needs(Viewer),
        ("DELETE", ["api", "locations"]) => Needs(Approver),
        // A server reads whatever the URI names, as the owner.
        (_, ["api", "sessions", _, "mcp", _, "resources" | "resource" | "prompts"]) if reads => Needs(Driver),
        (_, ["api", "sessions", ..]) if reads => Needs(Viewer),
        ("POST", ["api", "sessions", _, "requests", _]) => Needs(Approver),
        ("POST", ["api", "sessions", _, "requests", _, "link"]) => Needs(Approver),
        ("DELETE", ["api", "sessions", _, "grants", ..]) => Needs(Approver),
        ("POST" | "PATCH" | "DELETE", ["api", "sessions", ..]) => Needs(Driver),
        // A viewer's own browser.
        (_, ["api", "notifications"]) if reads => Needs(Viewer),
        ("POST" | "DELETE", ["api", "notifications", "subscriptions", ..]) => Needs(Viewer),
        // Servers for all sessions are programs that run as the owner. Their list reads files of any directory.
        (_, ["api", "mcp", ..]) if reads => Needs(Driver),
        ("POST" | "DELETE", ["api", "mcp", ..]) => Needs(Admin),
        // These read directories that the request names.
        (_, ["api", "skills", ..]) if reads => Needs(Driver),
        (_, ["api", "plugins" | "marketplaces", ..]) if reads => Needs(Viewer),
        ("POST" | "DELETE", ["api", "skills" | "plugins" | "marketplaces", ..]) => Needs(Admin),
        (_, ["api", "people", ..]) => Needs(Admin),
        // Another program's API, which opens workspaces and attaches as a client.
        (_, ["v1", ..]) => Needs(Driver),
        _ => return None,
    })
}

/// Returns the access to a route of the HTTP door.
#[must_use]
pub fn http(method: &str, path: &str) -> Access {
    listed(method, path).unwrap_or(Access::Needs(Role::Admin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(role: Role, method: &str, path: &str) -> bool {
        match http(method, path) {
            Access::Public => true,
            Access::Needs(needed) => role >= needed,
        }
    }

    #[test]
    fn viewer_reads_and_changes_nothing() {
        for path in ["/api/sessions", "/api/sessions/s/events", "/api/requests", "/api/events", "/api/me"] {
            assert!(may(Role::Viewer, "GET", path), "{path}");
        }
        for (method, path) in [
            ("POST", "/api/sessions"),
            ("POST", "/api/sessions/s/prompts"),
            ("POST", "/api/sessions/s/cancel"),
            ("POST", "/api/sessions/s/requests/r"),
            ("PATCH", "/api/sessions/s"),
            ("DELETE", "/api/sessions/s"),
            ("DELETE", "/api/sessions/s/grants/g"),
            ("DELETE", "/api/locations"),
            ("GET", "/api/people"),
            ("GET", "/api/mcp/servers"),
            ("GET", "/api/sessions/s/mcp/m/resources"),
            ("HEAD", "/api/sessions/s/mcp/m/resource"),
            ("GET", "/api/sessions/s/mcp/m/prompts"),
            ("GET", "/v1/workspaces"),
            ("POST", "/v1/workspaces"),
            ("PUT", "/api/sessions/s"),
            ("GET", "/api/something/new"),
        ] {
            assert!(!may(Role::Viewer, method, path), "{method} {path}");
        }
    }

    #[test]
    fn approver_answers_and_does_not_prompt() {
        assert!(may(Role::Approver, "POST", "/api/sessions/s/requests/r"));
        assert!(may(Role::Approver, "DELETE", "/api/sessions/s/grants"));
        for path in
            ["/api/sessions", "/api/sessions/s/prompts", "/api/sessions/s/cancel", "/api/sessions/s/resume"]
        {
            assert!(!may(Role::Approver, "POST", path), "{path}");
        }
        assert!(!may(Role::Approver, "PATCH", "/api/sessions/s"));
    }

    #[test]
    fn driver_uses_sessions_and_admin_manages_people() {
        assert!(may(Role::Driver, "POST", "/api/sessions/s/prompts"));
        assert!(may(Role::Driver, "DELETE", "/api/sessions/s"));
        assert!(!may(Role::Driver, "POST", "/api/people"));
        assert!(may(Role::Admin, "POST", "/api/people"));
        assert!(may(Role::Admin, "GET", "/api/something/new"), "unknown routes need the strongest role");
    }

    #[test]
    fn driver_changes_no_server_through_json_rpc() {
        for method in [
            "runtime.shutdown",
            "mcp.config.add",
            "mcp.config.reload",
            "plugins.install",
            "plugins.marketplaces.add",
            "skills.config.setDisabledSkills",
            "user.settings.set",
            "account.login",
            "extensions.disable",
            "session.extensions.enable",
            "sessions.setAdditionalPlugins",
        ] {
            assert_eq!(json_rpc(method), Role::Admin, "{method}");
        }
        for method in [
            "ping",
            "session.create",
            "session.mcp.enable",
            "mcp.config.list",
            "mcp.discover",
            "extensions.discover",
            "session.extensions.list",
            "plugins.marketplaces.browse",
            "user.settings.get",
        ] {
            assert_eq!(json_rpc(method), Role::Driver, "{method}");
        }
    }

    #[test]
    fn only_health_and_login_are_public() {
        let public = |method: &str, path: &str| http(method, path) == Access::Public;
        assert!(public("GET", "/api/health") && public("GET", "/api/ready") && public("POST", "/api/login"));
        for (method, path) in
            [("POST", "/api/health"), ("GET", "/api/login"), ("GET", "/api/health/x"), ("GET", "/")]
        {
            assert!(!public(method, path), "{method} {path}");
        }
    }
}
