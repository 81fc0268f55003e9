//! Reaching what listens outside: sockets of services, and the network.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::time::Duration;

use super::arena::{Arena, Escape, Level, User, escape, needs_walls, python, try_all};

/// Services outside, as a desktop has them. They end with the test.
struct Services {
    tcp: TcpListener,
    tcp6: Option<TcpListener>,
    udp: UdpSocket,
    directory: tempfile::TempDir,
    sockets: Vec<UnixListener>,
    paths: Vec<PathBuf>,
    name: String,
}

impl Services {
    fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("services").tempdir().unwrap();
        let open = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        open(directory.path(), 0o755);
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        let name = format!("walls-{}-{}", std::process::id(), udp.local_addr().unwrap().port());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        let mut services = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            tcp6: TcpListener::bind("[::1]:0").ok(),
            udp,
            sockets: vec![UnixListener::bind_addr(&abstract_name).unwrap()],
            paths: Vec::new(),
            directory,
            name,
        };
        // X11 and agents have theirs in /tmp.
        services.listen(services.directory.path().join("agent.sock"));
        services
    }

    fn listen(&mut self, path: PathBuf) {
        self.sockets.push(UnixListener::bind(&path).unwrap());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        self.paths.push(path);
    }

    fn escapes(&self) -> Vec<Escape> {
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let connect = |family: &str, address: &str| {
            python(&format!("s = socket.socket(socket.{family}); s.settimeout(5); s.connect({address})"))
        };
        let mut all = vec![
            escape("TCP", connect("AF_INET", &format!("('127.0.0.1', {})", port(&self.tcp)))),
            escape("abstract socket", connect("AF_UNIX", &format!("'\\0{}'", self.name))),
        ];
        if let Some(tcp6) = &self.tcp6 {
            all.push(escape("IPv6", connect("AF_INET6", &format!("('::1', {})", port(tcp6)))));
        }
        all.extend(self.paths.iter().map(|path| {
            let path = path.display().to_string();
            escape(&format!("socket file {path}"), connect("AF_UNIX", &format!("'{path}'")))
        }));
        all
    }
}

#[tokio::test]
async fn services_outside_are_not_reached() {
    needs_walls!();
    for user in User::all() {
        let mut services = Services::start();
        let arena = Arena::new(user);
        // Docker of one user, an agent of the desktop, a database, Baton's own.
        for directory in [".docker/run", ".gnupg", "outside", "baton/sockets"] {
            let directory = arena.home().join(directory);
            std::fs::create_dir_all(&directory).unwrap();
            services.listen(directory.join("service.sock"));
        }
        arena.give();
        let (all, before) = (services.escapes(), arena.outside());
        let names: Vec<String> = arena.attempt(Level::Off, &[], &all).await;
        assert_eq!(names.len(), all.len(), "with the level off, each is reached: {names:?}");
        assert_eq!(arena.attempt(Level::Workspace, &[], &all).await, [""; 0], "as {user:?}");
        assert_eq!(arena.outside(), before);
    }
}

#[tokio::test]
async fn datagrams_do_not_leave() {
    needs_walls!();
    for user in User::all() {
        let (services, arena) = (Services::start(), Arena::new(user));
        let port = services.udp.local_addr().unwrap().port();
        let send = python(&format!("socket.socket(2, 2).sendto(b'x', ('127.0.0.1', {port}))"));
        let mut buffer = [0; 8];
        arena.run(Level::Workspace, &send).await;
        assert!(services.udp.recv(&mut buffer).is_err(), "nothing arrives");
        arena.run(Level::Off, &send).await;
        services.udp.set_nonblocking(false).unwrap();
        services.udp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(services.udp.recv(&mut buffer).unwrap(), 1);
    }
}

#[tokio::test]
async fn variables_that_lead_to_services_are_absent() {
    needs_walls!();
    const NAMES: &[&str] = &[
        "SSH_AUTH_SOCK",
        "DOCKER_HOST",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XDG_RUNTIME_DIR",
    ];
    try_all(
        |arena| NAMES.iter().for_each(|name| arena.set(name, "leads somewhere")),
        |_| NAMES.iter().map(|name| escape(name, format!("test -n \"${name}\""))).collect(),
    )
    .await;
}

/// Answers each HTTP request with this response, until the test ends.
fn http_server(response: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            use std::io::{Read, Write};
            let mut stream = stream;
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(response.as_bytes());
        }
    });
    port
}

#[tokio::test]
async fn proxy_reaches_allowed_hosts_only() {
    needs_walls!();
    let ok = |body: &str| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
    };
    let (allowed, other) = (http_server(ok("allowed")), http_server(ok("other")));
    let redirect = http_server(format!(
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{other}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ));
    let rules = [format!("127.0.0.1:{allowed}"), format!("127.0.0.1:{redirect}")];
    let flags = ["--host", &rules[0], "--host", &rules[1]];
    // Local addresses go past a proxy that is only named by a variable.
    let curl = |url: String| format!("curl -sS -m 20 --noproxy '' -L -x \"${{https_proxy:-}}\" -f {url}");
    for user in User::all() {
        let arena = Arena::new(user);
        let reach =
            |level: Level, url: String| arena.run_with(level, &flags, Box::leak(curl(url).into_boxed_str()));
        let ran = reach(Level::Workspace, format!("http://127.0.0.1:{allowed}/")).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "allowed"), "{ran:?}");
        for port in [other, redirect] {
            let ran = reach(Level::Workspace, format!("http://127.0.0.1:{port}/")).await;
            assert!(ran.code != Some(0) && !ran.stdout.contains("other"), "{ran:?}");
            assert!(
                ran.stderr.contains(&format!("127.0.0.1:{other} was refused; allow it with --host")),
                "{ran:?}"
            );
            let ran = reach(Level::Off, format!("http://127.0.0.1:{port}/")).await;
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "other"), "{ran:?}");
        }
        // Names of this machine are no hosts of a rule, and other spellings of addresses are refused.
        for host in
            ["localhost", "127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "127.0.0.1@127.0.0.1"]
        {
            // Without curl, which would correct the spelling.
            let ask = python(&format!(
                "s = socket.create_connection(('127.0.0.1', 3128))\n\
                 s.sendall(b'GET http://{host}:{allowed}/ HTTP/1.1\\r\\nHost: {host}:{allowed}\\r\\nConnection: close\\r\\n\\r\\n')\n\
                 print(s.makefile().read())"
            ));
            let ran = arena.run_with(Level::Workspace, &flags, &ask).await;
            assert!(
                ran.stdout.starts_with("HTTP/1.1 4") && !ran.stdout.ends_with("allowed\n"),
                "{host}: {ran:?}"
            );
        }
        // The proxy is there at each level, and `read-only` has no network.
        let script = format!("curl -sS -m 20 -f -x http://127.0.0.1:3128 http://127.0.0.1:{other}/");
        let ran = arena.run(Level::ReadOnly, &script).await;
        assert_ne!(ran.code, Some(0), "{ran:?}");
    }
}

#[tokio::test]
async fn baton_itself_is_not_reached() {
    needs_walls!();
    for user in User::all() {
        let arena = Arena::new(user);
        let mut server = arena.baton(&["serve", "--demo", "--http", "127.0.0.1:0"]);
        server.stdout(std::process::Stdio::piped());
        let mut server = server.spawn().unwrap();
        let mut lines =
            tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(server.stdout.take().unwrap()));
        let url = async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some((_, url)) = line.split_once("listening on http://") {
                    return format!("http://{}", url.trim());
                }
            }
            panic!("no address")
        };
        let url = tokio::time::timeout(baton_testkit::client::LIMIT, url).await.unwrap();
        let all = [
            escape("port", format!("curl -s -m 9 {url}/ >/dev/null")),
            escape(
                "port through the proxy",
                format!(
                    "code=$(curl -s -m 9 --noproxy '' -o /dev/null -w '%{{http_code}}' -x \"${{https_proxy:-}}\" {url}/); test $code != 403 -a $code != 000"
                ),
            ),
            escape("token", "grep . $HOME/baton/token"),
            escape("addresses", "ls $HOME/baton/servers/* || ls $HOME/baton/running/*"),
            escape("signal", format!("kill -0 {}", server.id().unwrap())),
            escape("environment", format!("cat /proc/{}/cmdline | grep baton", server.id().unwrap())),
        ];
        let names: Vec<String> = arena.attempt(Level::Off, &[], &all).await;
        assert_eq!(names.len(), all.len(), "with the level off: {names:?}");
        assert_eq!(arena.attempt(Level::Workspace, &[], &all).await, [""; 0], "as {user:?}");
        server.kill().await.unwrap();
    }
}

#[tokio::test]
async fn hidden_sockets_of_a_rule_are_reached() {
    needs_walls!();
    for user in User::all() {
        let (mut services, arena) = (Services::start(), Arena::new(user));
        let path = arena.home().join("outside/database.sock");
        services.listen(path.clone());
        arena.give();
        let connect = python(&format!("socket.socket(socket.AF_UNIX).connect('{}')", path.display()));
        let denied = arena.run(Level::Workspace, &connect).await;
        assert_ne!(denied.code, Some(0), "{denied:?}");
        let flags = ["--read", path.to_str().unwrap()];
        let allowed = arena.run_with(Level::Workspace, &flags, &connect).await;
        assert_eq!(allowed.code, Some(0), "{allowed:?}");
    }
}
