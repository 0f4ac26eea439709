//! Lists of ranges compared with the selected bytes: no requested byte is missing, no other byte is sent, none is
//! sent twice, and the lengths of the parts add up.
//!
//! The input is a length, then ranges of three bytes each: the form and two numbers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_http::{
    Entity, Limits, MAX_RANGES, Multipart, Parse, Ranged, Validators, content_type, parse, range,
};

fuzz_target!(|data: &[u8]| {
    let Some((&length, ranges)) = data.split_first() else { return };
    let length = usize::from(length);
    let mut list = Vec::new();
    // The requested bytes; `None` if a range is invalid.
    let mut wanted = Some(vec![false; length]);
    let mut count = 0;
    for range in ranges.chunks_exact(3) {
        let (a, b) = (usize::from(range[1]), usize::from(range[2]));
        let (text, from, to) = match range[0] % 8 {
            0..=3 => (format!("{a}-{b}"), a, b + 1),
            4 => (format!("{a}-"), a, usize::MAX),
            5 => (format!("-{a}"), length.saturating_sub(a), if a > 0 { length } else { 0 }),
            6 => (format!("\t{a}-{a}{b:03} "), a, 1000 * a + b + 1),
            _ => {
                list.push(String::from(" "));
                continue;
            }
        };
        list.push(text);
        count += 1;
        // A reversed range is invalid; and no `Content-Range` can describe the suffix of an empty file.
        let backwards = matches!(range[0] % 8, 0..=3) && b < a;
        if backwards || (range[0] % 8 == 5 && a > 0 && length == 0) {
            wanted = None;
        }
        if let Some(wanted) = &mut wanted {
            let (from, to) = (from.min(length), to.min(length));
            wanted[from..to.max(from)].fill(true);
        }
    }
    let head =
        format!("GET / HTTP/1.1\r\nHost: a\r\nRange: bytes={}\r\n\r\n", list.join(","));
    let Ok(Parse::Complete(request, _)) = parse(head.as_bytes(), &Limits::default()) else { return };
    let validators = Validators { etag: "\"a\"", modified: 0 };
    let ranged = range::resolve(&request, &validators, length as u64);
    let Some(wanted) = wanted.filter(|_| (1..=MAX_RANGES).contains(&count)) else {
        assert_eq!(ranged, Ranged::Full, "{head}");
        return;
    };
    let parts = match &ranged {
        Ranged::Full => panic!("the list is in order: {head}"),
        Ranged::Unsatisfiable => vec![],
        Ranged::Partial { start, end } => vec![(*start, *end)],
        Ranged::Parts(parts) => parts.iter().collect(),
    };
    let mut sent = vec![false; length];
    for (start, end) in &parts {
        assert!(start < end && *end <= length as u64, "{parts:?}");
        for byte in &mut sent[*start as usize..*end as usize] {
            assert!(!std::mem::replace(byte, true), "twice: {parts:?}");
        }
        assert!(parts.iter().all(|(other, _)| other != end), "two that touch: {parts:?}");
    }
    assert_eq!(sent, wanted, "{head}: {parts:?}");

    if let Ranged::Parts(parts) = &ranged {
        let entity = Entity::new(content_type(b"a.txt"), &validators, length as u64, &[]);
        let multipart = Multipart::new(parts, &entity, length as u64, 0x123);
        let mut body = Vec::new();
        for (n, (start, end)) in parts.iter().enumerate() {
            multipart.before(n, &mut body);
            body.resize(body.len() + (end - start) as usize, 0);
        }
        multipart.end(&mut body);
        assert_eq!(body.len() as u64, multipart.length());
    }
});
