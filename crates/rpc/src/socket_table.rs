//! The kernel's table of TCP sockets, with the user who owns each.
//!
//! Linux lists the sockets of this machine in `/proc/net/tcp` and `/proc/net/tcp6`. Both ends of a loopback connection are in
//! the list; the peer's end is the one whose local address is the remote address of ours. A read costs the kernel
//! milliseconds, however short the table is, so one read looks for many connections. Other systems do not have these files:
//! no owner is found there.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// The two ends of a connection, as this server sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ends {
    peer: SocketAddr,
    local: SocketAddr,
}

impl Ends {
    pub(super) fn new(peer: SocketAddr, local: SocketAddr) -> Self {
        // An IPv6 socket with an IPv4 peer can have either form of address.
        let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        Self { peer: canonical(peer), local: canonical(local) }
    }
}

/// The owner of a peer's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    User(u32),
    /// The process closed the socket. The kernel then lists root as its owner, whichever user opened it.
    Closed,
}

/// Reads a file of the table. Blocks.
#[expect(clippy::disallowed_methods, reason = "the caller runs it on a blocking thread")]
pub(super) fn read_table(path: &str) -> io::Result<String> {
    std::fs::read_to_string(path)
}

/// Finds the owners of the peers' sockets in one read of the table. Blocks as `read` does.
pub(super) fn find_owners(
    wanted: &HashSet<Ends>,
    read: &dyn Fn(&str) -> io::Result<String>,
) -> HashMap<Ends, Owner> {
    let mut found = HashMap::new();
    for path in TABLES {
        if found.len() < wanted.len()
            && let Ok(table) = read(path)
        {
            find_in(&table, wanted, &mut found);
        }
    }
    found
}

fn find_in(table: &str, wanted: &HashSet<Ends>, found: &mut HashMap<Ends, Owner>) {
    for (ends, owner) in table.lines().skip(1).filter_map(parse_line) {
        if wanted.contains(&ends) {
            let known = found.entry(ends).or_insert(owner);
            if *known == Owner::Closed {
                *known = owner;
            }
        }
    }
}

/// Parses a line of the table: number, local address, remote address, state, queues, timer, retransmissions, owner,
/// time-out, inode, and more.
fn parse_line(line: &str) -> Option<(Ends, Owner)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let ends = Ends::new(parse_address(fields.next()?)?, parse_address(fields.next()?)?);
    let uid = fields.nth(4)?.parse().ok()?;
    let inode: u64 = fields.nth(1)?.parse().ok()?;
    Some((ends, if inode == 0 { Owner::Closed } else { Owner::User(uid) }))
}

/// Parses an address of the table: hexadecimal 32-bit words in the byte order of this machine, a colon, and the port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(host.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match host.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Writes a table as the kernel does.
#[cfg(test)]
pub(super) fn table_of(sockets: &[(Ends, Owner)]) -> String {
    use std::fmt::Write as _;

    let word = |octets: &[u8]| format!("{:08X}", u32::from_ne_bytes(octets.try_into().unwrap()));
    let address = |end: SocketAddr| match end.ip() {
        IpAddr::V4(ip) => format!("{}:{:04X}", word(&ip.octets()), end.port()),
        IpAddr::V6(ip) => {
            format!("{}:{:04X}", ip.octets().chunks(4).map(word).collect::<String>(), end.port())
        }
    };
    let mut table =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
            .to_owned();
    for (ends, owner) in sockets {
        let (from, to) = (address(ends.peer), address(ends.local));
        let (uid, inode) = match owner {
            Owner::User(uid) => (*uid, 7),
            Owner::Closed => (0, 0),
        };
        let rest = format!("01 00000000:00000000 00:00000000 00000000  {uid}        0 {inode} 1 0");
        writeln!(table, "   0: {from} {to} {rest}").unwrap();
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(peer: &str, local: &str) -> Ends {
        Ends::new(peer.parse().unwrap(), local.parse().unwrap())
    }

    /// Looks for one connection in a table.
    fn find(table: &str, wanted: Ends) -> Option<Owner> {
        let mut found = HashMap::new();
        find_in(table, &HashSet::from([wanted]), &mut found);
        found.get(&wanted).copied()
    }

    /// Builds a table of one line, as on a little-endian machine.
    #[cfg(target_endian = "little")]
    fn line(from: &str, to: &str, uid: u32) -> String {
        format!("header\n   0: {from} {to} 01 00000000:00000000 00:00000000 00000000  {uid}        0 7 1 0\n")
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn owner_is_found_by_both_addresses() {
        let wanted = ends("127.0.0.1:40000", "127.0.0.1:8080");
        let table = line("0100007F:9C40", "0100007F:1F90", 1000);
        assert_eq!(find(&table, wanted), Some(Owner::User(1000)));
        assert_eq!(
            find(&table, ends("127.0.0.1:8080", "127.0.0.1:40000")),
            None,
            "the server's end is not the peer's"
        );
        assert_eq!(find(&table, ends("127.0.0.2:40000", "127.0.0.1:8080")), None);
        assert_eq!(find(&table, ends("127.0.0.1:40000", "127.0.0.1:8081")), None);
        let mapped = "0000000000000000FFFF00000100007F";
        let table = line(&format!("{mapped}:9C40"), &format!("{mapped}:1F90"), 1001);
        assert_eq!(find(&table, wanted), Some(Owner::User(1001)), "an IPv6 socket with an IPv4 peer");
        let six = "00000000000000000000000001000000";
        let table = line(&format!("{six}:9C40"), &format!("{six}:1F90"), 1002);
        assert_eq!(find(&table, ends("[::1]:40000", "[::1]:8080")), Some(Owner::User(1002)));
    }

    #[test]
    fn closed_socket_is_not_attributed_to_root() {
        let wanted = ends("127.0.0.1:40000", "127.0.0.1:8080");
        let closed = (wanted, Owner::Closed);
        assert_eq!(find(&table_of(&[closed]), wanted), Some(Owner::Closed));
        let reopened = table_of(&[closed, (wanted, Owner::User(1000)), closed]);
        assert_eq!(find(&reopened, wanted), Some(Owner::User(1000)));
    }

    #[test]
    fn malformed_table_has_no_owners() {
        let wanted = ends("127.0.0.1:40000", "127.0.0.1:8080");
        for table in
            ["", "header\n", "x\ny", "x\n 0: 0100007F:9C40 0100007F:1F90 01", "x\n 0: é100007F:9C40 z"]
        {
            assert_eq!(find(table, wanted), None, "{table:?}");
        }
    }

    #[test]
    fn one_read_finds_ipv4_and_ipv6_sockets() {
        let four = ends("127.0.0.1:40000", "127.0.0.1:8080");
        let six = ends("[::1]:40000", "[::1]:8080");
        let read = |path: &str| {
            let socket = if path.ends_with('6') { (six, Owner::User(6)) } else { (four, Owner::User(4)) };
            Ok(table_of(&[socket]))
        };
        let both = find_owners(&HashSet::from([four, six]), &read);
        assert_eq!(both, HashMap::from([(four, Owner::User(4)), (six, Owner::User(6))]));
        let unreadable = |_: &str| Err(io::ErrorKind::NotFound.into());
        assert!(find_owners(&HashSet::from([four]), &unreadable).is_empty());
    }
}
