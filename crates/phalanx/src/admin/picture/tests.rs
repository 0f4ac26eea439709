//! Tests with the picture of an invented program.

use super::*;
use crate::metrics::{ArcInterval, CounterSnapshot, Histogram, PlacementSnapshot, StageInterval};

fn stage(ran: u64) -> StageInterval {
    let mut times = Histogram::default();
    times.0[3] = ran;
    StageInterval {
        seconds: 1.0,
        processors: 1,
        ran,
        started: ran,
        cohorts: ran / 4,
        run_ns: ran * 1000,
        waits: times,
        runs: times,
        ..StageInterval::default()
    }
}

fn program(processors: usize, stages: &[&'static str]) -> (Snapshot, Interval) {
    let of = |p: usize| ProcessorInterval {
        utilisation: 0.25,
        asleep: 0.5,
        system_calls: 7,
        operations: 9,
        stages: (0..stages.len()).map(|s| stage((p * 1000 + s * 100) as u64)).collect(),
    };
    let interval = Interval {
        seconds: 1.0,
        stages: stages.iter().map(|name| (*name).into()).collect(),
        processors: (0..processors).map(of).collect(),
        arcs: Vec::new(),
        counters: Vec::new(),
        times: Vec::new(),
    };
    let snapshot = Snapshot {
        version: 1,
        run: 0,
        uptime_ns: 5_000_000_000,
        driver: "uring".to_owned(),
        phase: "running".into(),
        stages: interval.stages.clone(),
        time_buckets_ns: Vec::new(),
        counters: Vec::new(),
        gauges: Vec::new(),
        times: Vec::new(),
        cache_bytes: 1 << 20,
        bytes: Default::default(),
        placement: None,
        processors: Vec::new(),
    };
    (snapshot, interval)
}

/// Checks that elements are closed in order, as a standalone SVG must be well-formed XML.
fn check_nesting(svg: &str) {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("a tag ends");
        assert!(!text.contains('>'), "unescaped: {text}");
        let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

fn count_of(svg: &str, pattern: &str) -> usize {
    svg.matches(pattern).count()
}

#[test]
fn a_box_for_each_stage_on_each_processor() {
    for processors in [1, 2, 5, 16] {
        let (snapshot, interval) = program(processors, &["front", "back"]);
        for screen in [Screen::Wide, Screen::Narrow] {
            let svg = drawing(&snapshot, &interval, screen, "");
            check_nesting(&svg);
            assert_eq!(count_of(&svg, "class=\"box\""), 2 * processors);
            assert_eq!(count_of(&svg, ">front</text>"), processors);
        }
    }
    // More processors than can be distinguished are drawn as one.
    let (snapshot, interval) = program(17, &["front", "back"]);
    let svg = drawing(&snapshot, &interval, Screen::Wide, "");
    assert_eq!(count_of(&svg, "class=\"box\""), 2);
}

#[test]
fn arcs_are_as_wide_as_they_are_many() {
    let (snapshot, mut interval) = program(2, &["a", "b", "c", "d"]);
    let arc = |from, to, count| ArcInterval { from, to, count };
    interval.arcs = vec![
        arc(None, (0, 0), 5),
        arc(Some((0, 0)), (0, 1), 10),
        arc(Some((0, 1)), (0, 0), 10_000),
        arc(Some((0, 0)), (0, 3), 10),
        arc(Some((0, 3)), (0, 0), 10),
        arc(Some((0, 2)), (0, 2), 10),
        arc(Some((0, 0)), (1, 1), 10),
        arc(Some((1, 1)), (0, 0), 10),
    ];
    let width = |svg: &str, title: &str| -> f64 {
        let before = &svg[..svg.find(title).unwrap_or_else(|| panic!("no {title}"))];
        let width = &before[before.rfind("stroke-width=\"").unwrap() + 14..];
        width[..width.find('"').unwrap()].parse().unwrap()
    };
    let svg = drawing(&snapshot, &interval, Screen::Wide, "");
    check_nesting(&svg);
    assert_eq!(count_of(&svg, "class=\"arc"), 8);
    assert!(width(&svg, "b on 0 to a on 0") > 2.0 * width(&svg, "a on 0 to b on 0"));
    assert!(svg.contains("a on 0 to b on 1: 10 operations/s"));
    // If the processors are not in one row, one short arc shows what crosses.
    let narrow = drawing(&snapshot, &interval, Screen::Narrow, "");
    assert!(narrow.contains("from other processors to b on 1: 10 operations/s"));
    check_nesting(&narrow);
}

#[test]
fn a_ring_where_work_is_turned_away() {
    let (snapshot, mut interval) = program(2, &["a", "b"]);
    assert_eq!(count_of(&drawing(&snapshot, &interval, Screen::Wide, ""), "class=\"ring\""), 0);
    interval.processors[1].stages[0].shed = 3;
    let svg = drawing(&snapshot, &interval, Screen::Wide, "");
    assert_eq!((count_of(&svg, "class=\"ring\""), count_of(&svg, "shedding 3/s")), (1, 1));
}

#[test]
fn the_busier_the_warmer() {
    let (snapshot, mut interval) = program(1, &["idle", "busy"]);
    interval.processors[0].stages[1].run_ns = 900_000_000;
    let svg = drawing(&snapshot, &interval, Screen::Wide, "");
    let heat: Vec<f64> = svg
        .split("fill-opacity=\"")
        .skip(1)
        .map(|rest| rest[..rest.find('"').unwrap()].parse().unwrap())
        .collect();
    assert!(heat[0] < 0.05 && heat[1] > 0.4, "{heat:?}");
    assert!(svg.contains("90 % busy"));
}

#[test]
fn automatic_placement_has_a_line_of_text() {
    let (mut snapshot, interval) = program(1, &["a"]);
    assert!(!page(&snapshot, &interval).contains("sockets"));
    let mut placement = PlacementSnapshot { mix: Some("<b>".to_owned()), ..Default::default() };
    placement.indicators.insert("sockets".into(), 7.0);
    snapshot.placement = Some(placement);
    let page = page(&snapshot, &interval);
    assert!(page.contains("mix &lt;b&gt;: ") && page.contains("7 sockets"), "{page}");
}

#[test]
fn names_are_text_and_nothing_else() {
    let (snapshot, mut interval) = program(1, &["<script>\"&\u{1}"]);
    interval.arcs = vec![ArcInterval { from: None, to: (0, 0), count: 1 }];
    let page = page(&snapshot, &interval);
    assert!(page.contains("&lt;script&gt;&quot;&amp; "));
    assert_eq!(count_of(&page, "<script>"), 1, "the page's own");
    check_nesting(&svg(&snapshot, &interval));
}

#[test]
fn the_page_needs_nothing_from_outside() {
    let (snapshot, interval) = program(3, &["a"]);
    let page = page(&snapshot, &interval);
    for outside in ["http://", "https://", "src=", "@import", "url(h"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let without_namespace = svg(&snapshot, &interval).replace("http://www.w3.org/2000/svg", "");
    assert!(!without_namespace.contains("http"));
}

#[test]
fn an_http_server_has_a_headline() {
    let (mut snapshot, mut interval) = program(1, &["front"]);
    let counter = |name: &'static str, label: Option<[&'static str; 2]>, count| CounterSnapshot {
        name: name.into(),
        help: "help".into(),
        label: label.map(|label| label.map(Into::into)),
        count,
    };
    snapshot.counters = vec![
        counter("http_requests", Some(["code", "200"]), 900),
        counter("http_requests", Some(["code", "206"]), 5),
        counter("http_requests", Some(["code", "503"]), 7),
        counter("http_response_bytes", None, 9),
        counter("http_cache_lookups", Some(["result", "hit"]), 8),
        counter("http_cache_lookups", Some(["result", "miss"]), 8),
        counter("tls_handshakes_failed", None, 3),
        counter("other", None, 5),
    ];
    interval.counters = vec![10, 2, 1, 2_500_000, 3, 1, 0, 4];
    let page = page(&snapshot, &interval);
    check_nesting(page.split_once("<main>").unwrap().1.split_once("</main>").unwrap().0);
    let headline =
        page.split_once("<dl class=\"headline\">").unwrap().1.split_once("</dl>").unwrap().0;
    for wanted in [
        "<dt>requests</dt><dd>13/s</dd>",
        "<span class=\"\">2xx <b>12/s</b></span>",
        "<span class=\"\">4xx <b>0/s</b></span>",
        "<span class=\"bad\">5xx <b>1/s</b></span>",
        "<dt>sent</dt><dd>2.50 MB/s</dd>",
        "<dt>cache hits</dt><dd>75 %</dd>",
        "<dt>TLS errors</dt><dd>0/s</dd><dd class=\"more\">3 since the start</dd>",
        "<dt>latency</dt><dd>none</dd>",
    ] {
        assert!(headline.contains(wanted), "{wanted} in {headline}");
    }
    // The list does not repeat the values of the headline.
    let list = page.split_once("<dl class=\"program\">").unwrap().1.split_once("</dl>").unwrap().0;
    assert_eq!(list, "<dt title=\"help\">other</dt><dd><span><b>4/s</b></span> </dd>");
}

#[test]
fn the_programs_own_figures_come_first() {
    let (mut snapshot, mut interval) = program(1, &["front"]);
    let own = |name: &'static str, label: Option<&'static str>, count| CounterSnapshot {
        name: name.into(),
        help: "a < b".into(),
        label: label.map(|value| ["code".into(), value.into()]),
        count,
    };
    snapshot.counters = vec![
        own("requests", Some("200"), 9),
        own("requests", Some("500"), 0),
        own("other", None, 5),
    ];
    interval.counters = vec![8, 0, 4];
    let page = page(&snapshot, &interval);
    let list = page.split_once("<dl class=\"program\">").unwrap().1.split_once("</dl>").unwrap().0;
    let wanted = "<dt title=\"a &lt; b\">requests</dt><dd><span>200 <b>8/s</b></span> </dd>\
                  <dt title=\"a &lt; b\">other</dt><dd><span><b>4/s</b></span> </dd>";
    assert_eq!(list, wanted);
}
