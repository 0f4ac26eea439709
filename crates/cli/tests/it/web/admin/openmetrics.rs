//! A strict parser of OpenMetrics text 1.0, which rejects everything that a scraper may reject.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::process::{Command, Stdio};

/// The labels of a series, sorted by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// Values by name and labels.
pub(crate) type Samples = BTreeMap<(String, Labels), f64>;

#[derive(Default)]
struct Family {
    name: String,
    kind: String,
    described: HashSet<&'static str>,
    sampled: bool,
}

/// Parses an exposition.
///
/// # Panics
/// At the first invalid line.
pub(crate) fn parse(text: &str) -> Samples {
    let body = text.strip_suffix("# EOF\n").expect("it ends in # EOF and a line end");
    let (mut samples, mut seen) = (Samples::new(), HashSet::new());
    let mut family = Family::default();
    for line in body.lines() {
        assert!(!line.is_empty() && line.trim() == line, "{line:?}");
        if let Some(descriptor) = line.strip_prefix("# ") {
            describe(descriptor, &mut family, &mut seen);
        } else {
            let (name, labels, value) = sample(line);
            check(&mut family, &name, &labels, value);
            assert!(samples.insert((name, labels), value).is_none(), "twice: {line:?}");
        }
    }
    check_histograms(&samples);
    samples
}

fn describe(descriptor: &str, family: &mut Family, seen: &mut HashSet<String>) {
    let mut words = descriptor.splitn(3, ' ');
    let (keyword, name) = (words.next().unwrap(), words.next().expect("a name"));
    let rest = words.next().expect("a value");
    assert!(is_name(name), "{descriptor:?}");
    if name != family.name {
        // A family must be contiguous.
        assert!(seen.insert(name.to_owned()), "{name} is taken up again");
        *family = Family { name: name.to_owned(), ..Family::default() };
    }
    assert!(!family.sampled, "{descriptor:?} behind its samples");
    let keyword = match keyword {
        "TYPE" => {
            assert!(["counter", "gauge", "histogram"].contains(&rest), "{descriptor:?}");
            family.kind = rest.to_owned();
            "TYPE"
        }
        "UNIT" => {
            assert!(name.ends_with(&format!("_{rest}")), "a name ends in its unit: {descriptor:?}");
            "UNIT"
        }
        "HELP" => "HELP",
        _ => panic!("{descriptor:?}"),
    };
    assert!(family.described.insert(keyword), "twice: {descriptor:?}");
}

fn check(family: &mut Family, name: &str, labels: &Labels, value: f64) {
    family.sampled = true;
    assert!(family.described.contains("TYPE"), "{name} has no type");
    let suffix = name.strip_prefix(&family.name).expect("a sample of the family above it");
    let suffixes: &[&str] = match family.kind.as_str() {
        "counter" => &["_total"],
        "gauge" => &[""],
        _ => &["_bucket", "_count", "_sum"],
    };
    assert!(suffixes.contains(&suffix), "{name} of a {}", family.kind);
    assert_eq!(labels.contains_key("le"), suffix == "_bucket", "{name}");
    assert!(value.is_finite() && (family.kind == "gauge" || value >= 0.0), "{name} {value}");
}

/// Name, labels and value of a sample line.
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).expect("a value");
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line:?}");
    let mut labels = Labels::new();
    if let Some(mut inner) = rest.strip_prefix('{') {
        while !inner.starts_with('}') {
            let (label, after) = inner.split_once("=\"").expect("a label's value in quotes");
            assert!(is_name(label) && !label.contains(':'), "{line:?}");
            let (value, after) = unquote(after);
            assert!(labels.insert(label.to_owned(), value).is_none(), "{label} twice: {line:?}");
            inner = after.strip_prefix(',').unwrap_or(after);
            assert!(after.starts_with(['}', ',']) && after != ",}", "{line:?}");
        }
        rest = &inner[1..];
    }
    let value = rest.strip_prefix(' ').expect("one space before the value");
    assert!(value.starts_with(|first: char| first.is_ascii_digit()), "a plain number: {line:?}");
    (name.to_owned(), labels, value.parse().expect("a number and no time stamp"))
}

/// The text up to the closing quote, and the rest.
fn unquote(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => match characters.next().expect("an escaped character").1 {
                'n' => value.push('\n'),
                escaped @ ('\\' | '"') => value.push(escaped),
                other => panic!("invalid escape \\{other}"),
            },
            _ => value.push(character),
        }
    }
    panic!("no closing quote")
}

fn is_name(name: &str) -> bool {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    name.starts_with(|c: char| is_name_char(c) && !c.is_ascii_digit())
        && name.chars().all(is_name_char)
}

/// Buckets are cumulative, and the last one equals the count.
fn check_histograms(samples: &Samples) {
    let mut buckets: BTreeMap<(String, Labels), Vec<(f64, f64)>> = BTreeMap::new();
    for ((name, labels), value) in samples {
        let Some(histogram) = name.strip_suffix("_bucket") else { continue };
        let mut labels = labels.clone();
        let bound = labels.remove("le").unwrap();
        assert!(bound == "+Inf" || bound.contains('.'), "le is a canonical float: {bound}");
        let bound = bound.parse().unwrap();
        buckets.entry((histogram.to_owned(), labels)).or_default().push((bound, *value));
    }
    assert!(!buckets.is_empty(), "at least one histogram");
    for ((name, labels), mut series) in buckets {
        series.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(series.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{name}: {series:?}");
        let last = series.last().unwrap();
        assert_eq!(last.0, f64::INFINITY, "{name}");
        assert_eq!(samples[&(format!("{name}_count"), labels.clone())], last.1, "{name}");
        assert!(samples.contains_key(&(format!("{name}_sum"), labels)), "{name}");
    }
}

/// Validation by other parsers: promtool of Prometheus and the reference parser of python3-prometheus-client.
/// Prints a message if they are not installed.
pub(crate) fn peers(text: &str) {
    // It also prints advice on names that does not apply to this format, with exit code 3; it exits with 1 for
    // invalid input.
    let promtool = ["promtool", "check", "metrics"];
    if let Some((code, output)) = tell(&promtool, text) {
        assert!(matches!(code, Some(0 | 3)), "{output}");
    }
    let script = "import sys\n\
        try:\n from prometheus_client.openmetrics.parser import text_string_to_metric_families as read\n\
        except ImportError: sys.exit(42)\n\
        assert len(list(read(sys.stdin.read()))) > 20";
    // Debian's python has it, whichever comes first in the search path.
    for python in ["/usr/bin/python3", "python3"] {
        match tell(&[python, "-c", script], text) {
            None | Some((Some(42), _)) => println!("{python} has no prometheus_client"),
            Some((code, output)) => assert_eq!(code, Some(0), "{output}"),
        }
    }
}

/// Exit code and stderr of a command with `text` as input; `None` if it is not installed.
fn tell(command: &[&str], text: &str) -> Option<(Option<i32>, String)> {
    let mut process = Command::new(command[0]);
    process.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let Ok(mut child) = process.spawn() else {
        println!("{} is not installed", command[0]);
        return None;
    };
    // A command that exits early does not read all input.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    Some((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
}
