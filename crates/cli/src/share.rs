//! Links to the page: the address that a phone can reach, and the link as a QR code.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use baton_people::NewSecret;
use qrcodegen::{QrCode, QrCodeEcc};

use crate::terminal;

/// Port of the page if none is named. Fixed, so that a phone finds the server again after a restart.
pub(crate) const PORT: u16 = 8422;

/// Returns the address of this machine in its network; none if it has no network.
pub(crate) fn network_address() -> Option<IpAddr> {
    // Sends nothing: the system only chooses the interface through which it would.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified() && !address.is_loopback()).then_some(address)
}

/// Returns the URL of the page for browsers on other machines, where possible. `host` is a configured name.
pub(crate) fn base(scheme: &str, listening: SocketAddr, host: Option<&str>) -> String {
    let port = listening.port();
    match host {
        Some(host) => format!("{scheme}://{host}:{port}/"),
        None if listening.ip().is_unspecified() => {
            let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
            format!("{scheme}://{}/", SocketAddr::new(network_address().unwrap_or(loopback), port))
        }
        None => format!("{scheme}://{listening}/"),
    }
}

/// Returns a login link.
pub(crate) fn link(base: &str, code: &NewSecret) -> String {
    format!("{base}?login={}", code.reveal())
}

/// Prints a link as a QR code to standard error, which must be a terminal.
pub(crate) fn show_code(link: &str) {
    // Fails only for texts that are longer than any link.
    let Ok(code) = QrCode::encode_text(link, QrCodeEcc::Low) else { return };
    terminal::code_lines(&rows(&code));
}

/// Draws a code with two modules to a character, dark on light.
fn rows(code: &QrCode) -> Vec<String> {
    const MARGIN: i32 = 2;
    let size = code.size();
    let row = |y: i32| {
        (-MARGIN..size + MARGIN)
            .map(|x| match (code.get_module(x, y), code.get_module(x, y + 1)) {
                (true, true) => ' ',
                (true, false) => '▄',
                (false, true) => '▀',
                (false, false) => '█',
            })
            .collect()
    };
    (-MARGIN..size + MARGIN).step_by(2).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_names_an_address_that_others_can_reach() {
        let at = |text: &str| text.parse().unwrap();
        assert_eq!(base("http", at("127.0.0.1:80"), None), "http://127.0.0.1:80/");
        assert_eq!(base("https", at("0.0.0.0:443"), Some("baton.example")), "https://baton.example:443/");
        assert!(!base("http", at("0.0.0.0:80"), None).contains("0.0.0.0"));
    }

    #[test]
    fn code_is_square_with_a_light_margin() {
        let code = QrCode::encode_text("http://192.168.1.2:8422/?login=x", QrCodeEcc::Low).unwrap();
        let rows = rows(&code);
        let width = rows[0].chars().count();
        assert!(rows.iter().all(|row| row.chars().count() == width));
        assert!(rows.len() == width.div_ceil(2), "{} {width}", rows.len());
        assert!(rows[0].chars().all(|c| c == '█'));
    }
}
