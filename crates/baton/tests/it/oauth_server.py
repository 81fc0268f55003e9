"""An MCP server that needs a login, and its authorization server. It checks everything, and misbehaves on request.

Usage: oauth_server.py MODE. Prints its port. POST /control with a JSON object changes its state; GET /control shows it.
"""
import base64, hashlib, json, secrets, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

MODE = sys.argv[1] if len(sys.argv) > 1 else "well"
state = {"expire": False, "problems": [], "refreshes": 0, "registrations": 0, "logins": 0, "calls": 0}
clients, codes, access, refresh = {}, {}, {}, {}
lock = threading.Lock()


def base():
    return f"http://127.0.0.1:{server.server_port}"


def resource():
    return base() + "/mcp"


def issuer():
    return "https://evil.example" if MODE == "mix-up" else base()


def metadata():
    found = {
        "issuer": issuer(),
        "authorization_endpoint": "javascript:alert(1)//" if MODE == "javascript" else base() + "/authorize",
        "token_endpoint": base() + "/token",
        "registration_endpoint": base() + "/register",
        "code_challenge_methods_supported": ["plain"] if MODE == "no-pkce" else ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
    }
    if MODE == "no-registration":
        del found["registration_endpoint"]
    return found


def problem(text):
    state["problems"].append(text)
    return {"error": "invalid_request", "error_description": text}


def issue(client, scope, with_refresh=True):
    token = secrets.token_urlsafe(24)
    access[token] = {"scope": scope, "until": time.time() + 3600}
    answer = {"access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": scope}
    if with_refresh:
        again = secrets.token_urlsafe(24)
        refresh[again] = {"client": client, "scope": scope}
        answer["refresh_token"] = again
    return answer


def grant(form, authorization):
    kind = form.get("grant_type")
    if form.get("resource") != resource():
        return 400, problem(f"resource is {form.get('resource')}")
    if kind == "client_credentials":
        expected = "Basic " + base64.b64encode(b"robot:s3cret").decode()
        if authorization != expected:
            return 401, {"error": "invalid_client"}
        return 200, issue("robot", form.get("scope", ""), False)
    if form.get("client_id") not in clients:
        return 401, {"error": "invalid_client"}
    if kind == "authorization_code":
        code = codes.pop(form.get("code"), None)
        if code is None:
            return 400, {"error": "invalid_grant", "error_description": "unknown code"}
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != code["challenge"]:
            return 400, problem("wrong code_verifier")
        if form.get("redirect_uri") != code["redirect_uri"] or form["client_id"] != code["client"]:
            return 400, problem("redirect_uri or client_id changed")
        return 200, issue(code["client"], code["scope"])
    if kind == "refresh_token":
        used = refresh.pop(form.get("refresh_token"), None)
        if used is None or used["client"] != form["client_id"]:
            refresh.clear()
            access.clear()
            return 400, {"error": "invalid_grant", "error_description": "refresh token was used before"}
        state["refreshes"] += 1
        return 200, issue(used["client"], used["scope"])
    return 400, {"error": "unsupported_grant_type"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=None, headers=()):
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def challenge(self, status, more):
        place = "http://127.0.0.1:1/meta" if MODE == "foreign" else base() + "/.well-known/oauth-protected-resource/mcp"
        self.reply(status, {}, [("WWW-Authenticate", f'Bearer resource_metadata="{place}", {more}')])

    def do_GET(self):
        url = urlsplit(self.path)
        with lock:
            if url.path == "/control":
                return self.reply(200, state | {"tokens": list(access) + list(refresh)})
            if url.path == "/.well-known/oauth-protected-resource/mcp":
                if MODE == "redirects":
                    return self.reply(302, None, [("Location", base() + self.path)])
                if MODE == "huge":
                    return self.huge()
                other = {"resource": "https://other.example/mcp"} if MODE == "other-resource" else {}
                found = {"resource": resource(), "authorization_servers": [base()], "scopes_supported": ["tools"]}
                return self.reply(200, found | other)
            if url.path == "/.well-known/oauth-authorization-server":
                return self.reply(200, metadata())
            if url.path == "/authorize":
                return self.authorize({name: values[0] for name, values in parse_qs(url.query).items()})
        self.reply(405 if url.path == "/mcp" else 404, {})

    def huge(self):
        self.send_response(200)
        self.send_header("Content-Length", str(100 << 20))
        self.end_headers()
        try:
            for _ in range(100):
                self.wfile.write(b" " * (1 << 20))
        except OSError:
            pass

    def authorize(self, query):
        client = clients.get(query.get("client_id"))
        wrong = (
            "unknown client" if client is None
            else "redirect_uri was not registered" if query.get("redirect_uri") not in client
            else "response_type" if query.get("response_type") != "code"
            else "no S256 challenge" if query.get("code_challenge_method") != "S256" or len(query.get("code_challenge", "")) != 43
            else "state is too short" if len(query.get("state", "")) < 40
            else f"resource is {query.get('resource')}" if query.get("resource") != resource()
            else None
        )
        if wrong:
            return self.reply(400, problem(wrong))
        state["logins"] += 1
        code = secrets.token_urlsafe(16)
        codes[code] = {
            "client": query["client_id"],
            "redirect_uri": query["redirect_uri"],
            "challenge": query["code_challenge"],
            "scope": query.get("scope", ""),
        }
        back = {"code": code, "state": query["state"], "iss": "https://evil.example" if MODE == "wrong-iss" else issuer()}
        if MODE == "denies":
            back = {"error": "access_denied", "error_description": "<b>no</b>", "state": query["state"], "iss": issuer()}
        self.reply(302, None, [("Location", query["redirect_uri"] + "?" + urlencode(back))])

    def do_DELETE(self):
        self.reply(200, {})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with lock:
            if self.path == "/control":
                state.update(json.loads(body))
                if state.pop("expire", False):
                    access.clear()
                if state.pop("revoke", False):
                    access.clear()
                    refresh.clear()
                return self.reply(200, {})
            if self.path == "/register":
                asked = json.loads(body)
                state["registrations"] += 1
                if asked.get("token_endpoint_auth_method") != "none":
                    return self.reply(400, problem("a public client was expected"))
                name = secrets.token_urlsafe(8)
                clients[name] = asked["redirect_uris"]
                return self.reply(201, {"client_id": name, "redirect_uris": asked["redirect_uris"]})
            if self.path == "/token":
                form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
                return self.reply(*grant(form, self.headers.get("Authorization")))
            if self.path == "/mcp":
                return self.mcp(json.loads(body))
        self.reply(404, {})

    def mcp(self, message):
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        known = access.get(token)
        if known is None:
            return self.challenge(401, 'scope="tools"')
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message:
            return self.reply(202)
        result = {}
        if method == "initialize":
            info = {"name": "locked", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        elif method == "tools/list":
            tools = ["whoami", "admin"]
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
        elif method == "tools/call":
            if params["name"] == "admin" and "admin" not in known["scope"].split():
                return self.challenge(403, 'error="insufficient_scope", scope="admin"')
            state["calls"] += 1
            result = {"content": [{"type": "text", "text": f"scopes {known['scope']}"}]}
        self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
