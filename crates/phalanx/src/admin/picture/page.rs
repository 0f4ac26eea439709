//! The HTML page of the picture.

use std::fmt::Write;

use super::headline::headline;
use super::program::program;
use super::{drawing, escape, style};
use crate::metrics::Interval;
use crate::metrics::Snapshot;
use crate::metrics::human::{cohorts, count, percent, time};

/// The screens for which a drawing is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::admin) enum Screen {
    Wide,
    Narrow,
}

impl Screen {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}

/// Requests the next picture after the last one has arrived, so that a slow program is not overloaded with requests.
const SCRIPT: &str = "\
const main=document.querySelector('main'),button=document.querySelector('button');\
let paused=false;button.hidden=false;\
button.onclick=()=>{paused=!paused;button.textContent=paused?'go on':'pause'};\
const wait=ms=>new Promise(done=>setTimeout(done,ms));\
(async()=>{for(;;){\
if(paused||document.hidden){await wait(200);continue}\
try{const layout=matchMedia('(max-width:700px)').matches?'narrow':'wide';\
const answer=await fetch('/picture?ms=1000&layout='+layout);\
if(!answer.ok)throw 0;const next=await answer.text();\
if(!paused)main.innerHTML=next;document.body.className=''}\
catch{document.body.className='stale';await wait(1000)}}})();";

/// The part of the page that changes: the program's own numbers, a line of the runtime's numbers, and the drawing in
/// one or both layouts.
pub(in crate::admin) fn fragment(
    snapshot: &Snapshot,
    interval: &Interval,
    screen: Option<Screen>,
) -> String {
    let total = interval.total();
    let ran: u64 = total.stages.iter().map(|stage| stage.ran).sum();
    let suspended: u64 = total.stages.iter().map(|stage| stage.suspended_now).sum();
    let mut out = String::new();
    headline(&mut out, snapshot, interval);
    program(&mut out, snapshot, interval);
    let _ = write!(
        out,
        "<p class=\"facts\"><b>{}</b> operations/s · <b>{}</b> of {} in cohorts · <b>{}</b> suspended \
         · up {} · driver {} · {}{}</p>",
        count(ran as f64 / interval.seconds.max(1e-9)),
        percent(total.utilisation),
        match interval.processors.len() {
            1 => "one processor".to_owned(),
            n => format!("{n} processors"),
        },
        count(suspended as f64),
        time(snapshot.uptime_ns as f64),
        escape(&snapshot.driver),
        escape(&snapshot.phase),
        snapshot
            .cohort_size_range()
            .map_or(String::new(), |found| format!(" · {}", cohorts(found))),
    );
    if let Some(placement) = &snapshot.placement {
        let lines = placement.lines(snapshot.uptime_ns).into_iter();
        let lines: Vec<_> = lines.map(|line| escape(&line)).collect();
        let mode = escape(&placement.mode);
        let _ = write!(out, "<p class=\"facts\">placement {mode} · {}</p>", lines.join(" · "));
    }
    for layout in [Screen::Wide, Screen::Narrow] {
        if screen.is_none_or(|screen| screen == layout) {
            out.push_str(&drawing(snapshot, interval, layout, ""));
        }
    }
    out
}

/// The whole page.
pub(in crate::admin) fn page(snapshot: &Snapshot, interval: &Interval) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>Phalanx</title><link rel=\"icon\" href=\"data:,\"><style>{}{}</style></head><body>\
         <header><h1>Phalanx</h1><button hidden>pause</button><noscript>A static picture; reload for \
         the next.</noscript><nav><a href=\"/snapshot.json\">snapshot</a><a href=\"/metrics\">metrics\
         </a><a href=\"/graph.dot\">graph</a><a href=\"/picture.svg\">picture</a>\
         <a href=\"/trace.json?seconds=2\">trace of 2 s</a></nav></header><main>{}</main>{LEGEND}\
         <script>{SCRIPT}</script></body></html>",
        style::PICTURE,
        style::PAGE,
        fragment(snapshot, interval, None),
    )
}

const LEGEND: &str = "<footer><p>Above: the program's own figures, as rates over the last second. A box is a stage on a processor; a warmer color means busier, a red ring \
    that it sheds operations. Columns: the queue found by cohorts; operations started and resumed, with \
    their wait; operations completed, with their run time. Rates, means and p99 cover the last second, \
    maxima the time since the start.</p><p>Arcs are operations per second:\
    <span class=\"key\" style=\"color:var(--arc)\"></span>between stages\
    <span class=\"key\" style=\"color:var(--cross)\"></span>between processors\
    <span class=\"key\" style=\"color:var(--out)\"></span>from I/O, timers and other threads</p></footer>";
