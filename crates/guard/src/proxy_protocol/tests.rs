use proptest::prelude::*;

use super::*;

/// Reads a header from the start of `bytes` as a server does. Returns its length and the client.
fn read(bytes: &[u8]) -> Result<(usize, Option<SocketAddr>), ProxyHeaderError> {
    let mut length = 0;
    while let with_extensions @ 1.. = missing(&bytes[..length])? {
        length += with_extensions;
        assert!(length <= bytes.len(), "reads beyond the header");
    }
    Ok((length, source(&bytes[..length])?))
}

fn version2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    header.extend([command, family]);
    header.extend((rest.len() as u16).to_be_bytes());
    header.extend(rest);
    header
}

#[test]
fn text_headers() {
    for (header, expected) in [
        ("PROXY UNKNOWN\r\n", Ok(None)),
        ("PROXY UNKNOWN ffff:f...f:ffff whatever\r\n", Ok(None)),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 65535 80\r\n", Ok(Some("1.2.3.4:65535"))),
        ("PROXY TCP6 ::1 2001:db8::1 1 2\r\n", Ok(Some("[::1]:1"))),
        ("PROXY TCP6 ::ffff:1.2.3.4 ::1 1 2\r\n", Ok(Some("1.2.3.4:1"))),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 65536 80\r\n", Err(ProxyHeaderError::Invalid)),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 +1 80\r\n", Err(ProxyHeaderError::Invalid)),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n", Err(ProxyHeaderError::Invalid)),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n", Err(ProxyHeaderError::Invalid)),
        ("PROXY TCP4 ::1 ::1 1 2\r\n", Err(ProxyHeaderError::Invalid)),
        ("PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n", Err(ProxyHeaderError::Invalid)),
        ("PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n", Err(ProxyHeaderError::Invalid)),
        ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", Err(ProxyHeaderError::NotAHeader)),
        ("PROXYTCP4 1.2.3.4 5.6.7.8 1 2\r\n", Err(ProxyHeaderError::NotAHeader)),
    ] {
        let found = read(header.as_bytes());
        let expected =
            expected.map(|address| (header.len(), address.map(|text| text.parse().unwrap())));
        assert_eq!(found, expected, "{header:?}");
    }
    let endless = format!("PROXY UNKNOWN {}", "x".repeat(200));
    assert_eq!(read(endless.as_bytes()), Err(ProxyHeaderError::TooLong));
}

#[test]
fn binary_headers() {
    let ipv4 = [1, 2, 3, 4, 5, 6, 7, 8, 0x12, 0x34, 0, 80];
    let six = [[0x20; 16].as_slice(), &[0; 16], &[0, 1, 0, 2]].concat();
    let with_extensions = [ipv4.as_slice(), &[4, 0, 3, b'a', b'b', b'c']].concat();
    let six_address = "[2020:2020:2020:2020:2020:2020:2020:2020]:1";
    for (command, family, rest, expected) in [
        (0x21, 0x11, &ipv4[..], Ok(Some("1.2.3.4:4660"))),
        (0x21, 0x11, &with_extensions, Ok(Some("1.2.3.4:4660"))),
        (0x21, 0x21, &six, Ok(Some(six_address))),
        (0x21, 0x31, &[b'/'; 216], Ok(None)),
        (0x21, 0x00, &[], Ok(None)),
        (0x20, 0x11, &ipv4, Ok(None)),
        (0x20, 0xff, &[], Ok(None)),
        (0x21, 0x11, &ipv4[..11], Err(ProxyHeaderError::Invalid)),
        (0x21, 0x21, &six[..35], Err(ProxyHeaderError::Invalid)),
        (0x21, 0x41, &six, Err(ProxyHeaderError::Invalid)),
        (0x22, 0x11, &ipv4, Err(ProxyHeaderError::Invalid)),
        (0x11, 0x11, &ipv4, Err(ProxyHeaderError::Invalid)),
        (0x21, 0x11, &[0; 4097], Err(ProxyHeaderError::TooLong)),
    ] {
        let header = version2(command, family, rest);
        let expected =
            expected.map(|address| (header.len(), address.map(|text| text.parse().unwrap())));
        assert_eq!(read(&header), expected, "{command:x} {family:x} {}", rest.len());
    }
    assert_eq!(missing(b"\r\n\r\nX"), Err(ProxyHeaderError::NotAHeader));
}

#[test]
fn clients_with_tls() {
    let ipv4 = [1, 2, 3, 4, 5, 6, 7, 8, 0x12, 0x34, 0, 80];
    let six = [0; 36];
    let name = [2, 0, 1, b'h'];
    let ssl = |client: u8| [0x20, 0, 5, client, 0, 0, 0, 0];
    for (command, family, parts, expected) in [
        (0x21, 0x11, [&ipv4[..], &ssl(1), &[]], true),
        (0x21, 0x11, [&ipv4[..], &name, &ssl(7)], true),
        (0x21, 0x21, [&six[..], &name, &ssl(1)], true),
        (0x21, 0x31, [&[0; 216][..], &ssl(1), &[]], true),
        (0x21, 0x00, [&ssl(1)[..], &[], &[]], true),
        (0x21, 0x11, [&ipv4[..], &ssl(0), &[]], false),
        (0x21, 0x11, [&ipv4[..], &ssl(6), &[]], false),
        (0x21, 0x11, [&ipv4[..], &[0x20, 0, 0], &[]], false),
        (0x21, 0x11, [&ipv4[..], &[0x20, 0, 9, 1], &[]], false),
        (0x21, 0x11, [&ipv4[..], &name, &[]], false),
        (0x21, 0x11, [&ipv4[..], &[0x20], &[]], false),
        (0x20, 0x11, [&ipv4[..], &ssl(1), &[]], false),
    ] {
        let header = version2(command, family, &parts.concat());
        assert_eq!(is_tls(&header), expected, "{command:x} {family:x} {parts:?}");
    }
    assert!(!is_tls(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 443\r\n"));
}

proptest! {
    /// A header is read to its last byte and no further, and gives the client back.
    #[test]
    fn the_client_comes_back(
        client in any::<SocketAddr>(),
        rest in prop::collection::vec(any::<u8>(), 0..40),
        behind in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        let (ip, port) = (client.ip(), client.port());
        let (family, server) = if ip.is_ipv4() { ("TCP4", "0.0.0.0") } else { ("TCP6", "::") };
        let text = format!("PROXY {family} {ip} {server} {port} 80\r\n").into_bytes();
        let mut addresses = match ip {
            IpAddr::V4(ip) => [&ip.octets()[..], &[0; 4]].concat(),
            IpAddr::V6(ip) => [&ip.octets()[..], &[0; 16]].concat(),
        };
        addresses.extend(port.to_be_bytes());
        addresses.extend([0, 80]);
        addresses.extend(rest);
        let binary = version2(0x21, if ip.is_ipv4() { 0x11 } else { 0x21 }, &addresses);
        for header in [text, binary] {
            let sent = [&header[..], &behind[..]].concat();
            prop_assert_eq!(read(&sent), Ok((header.len(), Some(client))));
        }
    }

    /// No bytes break the reader, and it is never satisfied with more than it asked for.
    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..300), start in 0..3usize) {
        let start = [&b""[..], &SIGNATURE[..], TEXT][start];
        let bytes = [start, &bytes, &[0; MAX_HEADER_BYTES + 16]].concat();
        is_tls(&bytes);
        if let Ok((length, _)) = read(&bytes) {
            prop_assert!((MIN_HEADER_BYTES..=MAX_HEADER_BYTES).contains(&length));
        }
    }
}
