//! Any `Accept-Encoding`, on any number of lines: what is accepted follows from what is said, whatever
//! else stands beside it.
//!
//! A line of the input is a line of the field.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_http::{Accepted, Coding, Limits, Parse, parse};

const ALL: [Coding; 4] = [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Identity];

/// What a request with these lines accepts; none if it is no request.
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

    // Lines are one list (RFC 9110, 5.3), and names know no case.
    let joined = lines.join(&b", "[..]);
    assert_eq!(accepted(&[&joined]), Some(this), "lines and one line");
    assert_eq!(accepted(&[&joined.to_ascii_uppercase()]), Some(this), "upper case");
    let mut other = lines.clone();
    other.reverse();
    assert_eq!(accepted(&other), Some(this), "another order of lines");

    // What nobody knows changes nothing; what is refused is refused, whatever was said before.
    let with = |more: &[u8]| accepted(&[&joined, more]);
    assert_eq!(with(b"x-unknown;q=0.7, , ,"), Some(this));
    for coding in ALL {
        let Some(less) = with(format!("{};q=0", coding.name()).as_bytes()) else { continue };
        for one in ALL {
            assert_eq!(less.takes(one), one != coding && this.takes(one), "{one:?}");
        }
    }
    // A second weight never makes a coding more welcome than the first.
    for coding in order {
        let Some(again) = with(format!("{};q=1", coding.name()).as_bytes()) else { continue };
        assert!(again.takes(coding), "{coding:?}");
    }
});
