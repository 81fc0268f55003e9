//! Who is at the other end of a TCP connection: which user of this machine, as far as the system can tell.
//!
//! Linux lists the sockets of this machine with their owners in `/proc/net/tcp` and `/proc/net/tcp6`. A connection over
//! loopback has both of its ends there; the peer's end is the one whose local address is the address that we see. On
//! other systems nobody is identified, so whatever depends on the user is refused there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// How often the table is read for a socket that is not in it, and the pause in between. The entry exists before the
/// connection is accepted; the kernel may leave one out of a reading while others come and go.
const LOOKS: usize = 5;
const PAUSE: Duration = Duration::from_millis(10);

/// One end of a connection, for counting connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Peer {
    /// A user of this machine.
    User(u32),
    /// Somebody at this address.
    Address(IpAddr),
}

impl Peer {
    /// Identifies the peer of a connection.
    pub(super) async fn of(peer: SocketAddr, local: SocketAddr) -> Self {
        let unknown = Self::Address(peer.ip().to_canonical());
        if !peer.ip().to_canonical().is_loopback() {
            return unknown;
        }
        for look in 0..LOOKS {
            if look > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let owner = tokio::task::spawn_blocking(move || owner_of(peer, local)).await;
            if let Ok(Some(uid)) = owner {
                return Self::User(uid);
            }
        }
        unknown
    }

    /// Whether the peer is a process of the user that this server runs as.
    pub(super) fn is_own_user(self) -> bool {
        self == Self::User(rustix::process::geteuid().as_raw())
    }
}

/// The user who owns the socket that is bound to `peer` and connected to `local`. Blocks.
#[expect(clippy::disallowed_methods, reason = "the caller runs it on a blocking thread")]
fn owner_of(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|table| {
        let text = std::fs::read_to_string(table).ok()?;
        find_owner(&text, peer, local)
    })
}

fn find_owner(table: &str, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (from, to) = (parse_address(fields.next()?)?, parse_address(fields.next()?)?);
        if !is_same(from, peer) || !is_same(to, local) {
            return None;
        }
        // After the addresses: state, queues, timer, retransmissions, owner, time-out, inode.
        let uid = fields.nth(4)?.parse().ok()?;
        let inode: u64 = fields.nth(1)?.parse().ok()?;
        // A socket that its process has closed has no inode, and is listed as root's whoever opened it.
        (inode != 0).then_some(uid)
    })
}

fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
}

/// An address as the kernel writes it: words of 32 bits in this machine's byte order, in hexadecimal, a colon, the port.
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

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    /// A line of the table on a little-endian machine.
    fn line(from: &str, to: &str, uid: u32, inode: u32) -> String {
        format!(
            "{HEADER}   0: {from} {to} 01 00000000:00000000 00:00000000 00000000  {uid}        0 {inode} 1 0\n"
        )
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn owner_is_found_by_both_addresses() {
        let (peer, local) = (address("127.0.0.1:40000"), address("127.0.0.1:8080"));
        let table = line("0100007F:9C40", "0100007F:1F90", 1000, 7);
        assert_eq!(find_owner(&table, peer, local), Some(1000));
        assert_eq!(find_owner(&table, local, peer), None, "our own end is not the peer's");
        assert_eq!(find_owner(&table, address("127.0.0.2:40000"), local), None);
        assert_eq!(find_owner(&table, peer, address("127.0.0.1:8081")), None);
        let mapped = "0000000000000000FFFF00000100007F";
        let table = line(&format!("{mapped}:9C40"), &format!("{mapped}:1F90"), 1001, 7);
        assert_eq!(find_owner(&table, peer, local), Some(1001), "an IPv6 socket that speaks IPv4");
        let six = "00000000000000000000000001000000";
        let table = line(&format!("{six}:9C40"), &format!("{six}:1F90"), 1002, 7);
        assert_eq!(find_owner(&table, address("[::1]:40000"), address("[::1]:8080")), Some(1002));
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn closed_socket_is_not_taken_for_roots() {
        let (peer, local) = (address("127.0.0.1:40000"), address("127.0.0.1:8080"));
        assert_eq!(find_owner(&line("0100007F:9C40", "0100007F:1F90", 0, 0), peer, local), None);
    }

    #[test]
    fn nonsense_in_the_table_finds_nobody() {
        let (peer, local) = (address("127.0.0.1:40000"), address("127.0.0.1:8080"));
        for table in ["", HEADER, "x\ny", "x\n 0: 0100007F:9C40 0100007F:1F90 01", "x\n 0: é100007F:9C40 z"]
        {
            assert_eq!(find_owner(table, peer, local), None, "{table:?}");
        }
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn own_connection_is_ours() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = listener.local_addr().unwrap();
        let _client = tokio::net::TcpStream::connect(local).await.unwrap();
        let (_stream, peer) = listener.accept().await.unwrap();
        assert!(Peer::of(peer, local).await.is_own_user());
        assert_eq!(
            Peer::of(address("127.0.0.1:1"), local).await,
            Peer::Address(peer.ip()),
            "nobody is there"
        );
    }
}
