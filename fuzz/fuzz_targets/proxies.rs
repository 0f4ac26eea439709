//! Arbitrary PROXY headers and forwarding fields: a header is read to its last byte and no further, and what a client
//! sends does not change whom a trusted proxy names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_guard::proxy_protocol::{missing, source};
use phalanx_guard::{ForwardedField, TrustedProxies};

fuzz_target!(|data: &[u8]| {
    let mut length = 0;
    while let Ok(more @ 1..) = missing(&data[..length]) {
        length += more;
        if length > data.len() {
            return;
        }
    }
    if missing(&data[..length]) == Ok(0) {
        assert!((15..=4112).contains(&length));
        let client = source(&data[..length]);
        // A header is complete only at its end.
        assert!((0..length).all(|end| missing(&data[..end]) != Ok(0)));
        assert!(client.is_err() || data.starts_with(b"PROXY ") || data.starts_with(b"\r\n\r\n\0"));
    }
    let networks = ["10.0.0.0/8".parse().expect("a network")];
    let proxy = "10.0.0.1".parse().expect("an address");
    for (field, entry) in [
        (ForwardedField::XForwardedFor, &b"203.0.113.9"[..]),
        (ForwardedField::Forwarded, b"for=\"203.0.113.9:1\";host=\"a,b\""),
    ] {
        let proxies = TrustedProxies::new(&networks, field).expect("not empty");
        let joined = [data, b",", entry].concat();
        for lines in [vec![data, entry], vec![&joined[..]]] {
            let client = proxies.client(proxy, lines.into_iter());
            assert_eq!(client.to_string(), "203.0.113.9");
        }
        proxies.client(proxy, data.split(|byte| *byte == b'\n'));
    }
});
