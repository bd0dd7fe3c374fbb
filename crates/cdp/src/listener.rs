//! Who listens at a port of this machine.

use std::net::{IpAddr, SocketAddr};

/// The state of a socket that listens, in the kernel's tables.
const LISTENS: &str = "0A";

/// The user who listens at the address and is neither we nor root; `None` where nobody does, and where the kernel does not
/// say.
pub(crate) fn stranger_at(address: SocketAddr) -> Option<u32> {
    let own = rustix::process::geteuid().as_raw();
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default());
    tables.iter().flat_map(|table| listeners(table, address)).find(|user| *user != own && *user != 0)
}

/// The users who listen at the address, or at all addresses, by a table of the kernel's.
fn listeners(table: &str, address: SocketAddr) -> impl Iterator<Item = u32> {
    let places = places(address);
    table.lines().filter_map(move |line| {
        let mut fields = line.split_whitespace().skip(1);
        let place = fields.next()?;
        let state = fields.nth(1)?;
        let user = fields.nth(3)?.parse().ok()?;
        (state == LISTENS && places.iter().any(|listened| listened == place)).then_some(user)
    })
}

/// How the kernel writes what a connection to the address may reach: the address, and all addresses.
fn places(address: SocketAddr) -> Vec<String> {
    let port = address.port();
    let words = |bytes: &[u8]| -> String {
        let words = bytes.as_chunks().0.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
        words.collect()
    };
    let addresses = match address.ip() {
        IpAddr::V4(ip) => {
            vec![words(&ip.octets()), words(&[0; 4]), words(&ip.to_ipv6_mapped().octets()), words(&[0; 16])]
        }
        IpAddr::V6(ip) => vec![words(&ip.octets()), words(&[0; 16])],
    };
    addresses.into_iter().map(|address| format!("{address}:{port:04X}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows as a machine with little-endian words has them, and all that Chromium is there for are such.
    const TABLE: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2406 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 20414 1
   1: 0100007F:2406 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1002        0 20415 1
   2: 0200007F:2407 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1003        0 20416 1
   3: 00000000:2408 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1004        0 20417 1
";
    const TABLE_6: &str =
        "  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:2406 00000000000000000000000000000000:0000 0A 0:0 00:0 0 1005 0 1
   1: 00000000000000000000000000000000:2409 00000000000000000000000000000000:0000 0A 0:0 00:0 0 1006 0 1
";

    fn who(table: &str, address: &str) -> Vec<u32> {
        listeners(table, address.parse().unwrap()).collect()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn who_listens_is_read_by_address_and_port() {
        // 9222, 9223, 9224 and 9225 are 0x2406 to 0x2409.
        assert_eq!(who(TABLE, "127.0.0.1:9222"), [1001], "not who is connected there");
        assert_eq!(who(TABLE, "127.0.0.1:9223"), [0_u32; 0], "another loopback address");
        assert_eq!(who(TABLE, "127.0.0.1:9224"), [1004], "all addresses");
        assert_eq!(who(TABLE_6, "[::1]:9222"), [1005]);
        assert_eq!(who(TABLE_6, "127.0.0.1:9225"), [1006], "all addresses of both kinds");
        assert_eq!(who("", "127.0.0.1:9222"), [0_u32; 0]);
    }

    #[tokio::test]
    async fn we_are_no_strangers() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(stranger_at(address), None);
        let own = rustix::process::geteuid().as_raw();
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        assert_eq!(listeners(&table, address).collect::<Vec<_>>(), [own]);
    }
}
