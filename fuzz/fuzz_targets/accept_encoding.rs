//! Arbitrary `Accept-Encoding` fields on several lines: the accepted codings follow from the stated ones,
//! whatever the rest contains.
//!
//! A line of the input is a field line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_http::{Accepted, Coding, Limits, Parse, parse};

const ALL: [Coding; 4] = [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Identity];

/// The codings accepted by a request with these lines; `None` if it is invalid.
fn accepted(lines: &[&[u8]]) -> Option<Accepted> {
    let mut head = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    for line in lines {
        head.extend_from_slice(b"Accept-Encoding: ");
        head.extend_from_slice(line);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    match parse(&head, &Limits::default()) {
        Ok(Parse::Complete(request, _)) => Some(Accepted::by(&request)),
        _ => None,
    }
}

fuzz_target!(|data: &[u8]| {
    let lines: Vec<&[u8]> = data.split(|&byte| byte == b'\n').take(20).collect();
    let Some(this) = accepted(&lines) else { return };

    let order: Vec<Coding> = this.in_order().collect();
    for coding in ALL {
        let times = order.iter().filter(|one| **one == coding).count();
        assert_eq!(times, usize::from(this.takes(coding)), "{coding:?} in {order:?}");
    }

    // Lines form one list (RFC 9110, 5.3), and names are case-insensitive.
    let joined = lines.join(&b", "[..]);
    assert_eq!(accepted(&[&joined]), Some(this), "lines and one line");
    assert_eq!(accepted(&[&joined.to_ascii_uppercase()]), Some(this), "upper case");
    let mut other = lines.clone();
    other.reverse();
    assert_eq!(accepted(&other), Some(this), "another order of lines");

    // An unknown coding changes nothing; a rejected one is rejected, whatever was stated before.
    let with = |more: &[u8]| accepted(&[&joined, more]);
    assert_eq!(with(b"x-unknown;q=0.7, , ,"), Some(this));
    for coding in ALL {
        let Some(less) = with(format!("{};q=0", coding.name()).as_bytes()) else { continue };
        for one in ALL {
            assert_eq!(less.takes(one), one != coding && this.takes(one), "{one:?}");
        }
    }
    // A second weight never raises the preference of a coding.
    for coding in order {
        let Some(again) = with(format!("{};q=1", coding.name()).as_bytes()) else { continue };
        assert!(again.takes(coding), "{coding:?}");
    }
});
