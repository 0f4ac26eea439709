//! Any path stays within the root, and its redirect leads back to it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_http::{content_type, path};

fuzz_target!(|data: &[u8]| {
    let mut out = b"left over".to_vec();
    let Ok(resolved) = path::resolve(data, &mut out) else { return };
    assert!(out.len() <= data.len());
    assert!(!out.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\'));
    assert!(resolved.directory || !out.is_empty());
    if !out.is_empty() {
        for (at, name) in out.split(|&byte| byte == b'/').enumerate() {
            assert!(!name.is_empty());
            assert!(name[0] != b'.' || (at == 0 && name == b".well-known"));
        }
    }
    let _ = content_type(&out).to_string();

    let mut location = Vec::new();
    path::redirect_location(&out, Some(&String::from_utf8_lossy(data)), &mut location);
    assert!(location.starts_with(b"/") && !location.starts_with(b"//"));
    assert!(location.is_ascii());
    assert!(!location.iter().any(|byte| byte.is_ascii_control() || *byte == b' '));
    let end = location.iter().position(|&byte| byte == b'?').unwrap();
    assert!(!location[..end].contains(&b'\\'));
    let mut again = Vec::new();
    assert!(path::resolve(&location[..end], &mut again).unwrap().directory);
    assert_eq!(again, out);

    // Even with input that is not the output of `resolve`, it leads nowhere else.
    location.clear();
    path::redirect_location(data, None, &mut location);
    assert!(location.starts_with(b"/") && !location.starts_with(b"//") && location.is_ascii());
});
