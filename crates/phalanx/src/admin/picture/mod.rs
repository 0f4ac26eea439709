//! A live version of the paper's Figure 4 (2002 §3.5): a box for each stage on each processor, and arcs
//! between them.
//!
//! The server draws the SVG as a pure function of an interval, so the page works without a script. The script
//! only requests the next picture.

mod arcs;
mod boxes;
mod headline;
mod layout;
mod page;
mod program;
mod style;

use std::fmt::Write;

use crate::metrics::Snapshot;
use crate::metrics::human::{count, percent};
use crate::metrics::{Interval, ProcessorInterval};
use layout::Layout;
pub(super) use page::{Screen, fragment, page};

/// Above this number, all processors are drawn as one.
const MAX_SEPARATE_PROCESSORS: usize = 16;

/// Escapes text for an element or an attribute.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // XML allows no control characters, not even escaped.
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// A standalone SVG picture.
pub(super) fn svg(snapshot: &Snapshot, interval: &Interval) -> String {
    let style = format!("<style>{}svg{{background:var(--page)}}</style>", style::PICTURE);
    let wide = drawing(snapshot, interval, Screen::Wide, &style);
    wide.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1)
}

/// The drawing for a wide or a narrow screen.
fn drawing(snapshot: &Snapshot, interval: &Interval, screen: Screen, style: &str) -> String {
    let many = interval.processors.len() > MAX_SEPARATE_PROCESSORS;
    let summed = many.then(|| interval.merged());
    let interval = summed.as_ref().unwrap_or(interval);
    let columns = match screen {
        Screen::Wide => interval.processors.len().clamp(1, 4),
        Screen::Narrow => 1,
    };
    let layout = Layout::new(interval.stages.len(), interval.processors.len(), columns);
    let (width, height) = layout.size();
    let class = screen.name();
    let mut out = String::with_capacity(2048 * interval.processors.len() * interval.stages.len());
    let _ = write!(
        out,
        "<svg class=\"phalanx {class}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-label=\"Stages and the operations between them\">{style}\
         <defs><marker id=\"{class}-tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" \
         markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"tip\" \
         d=\"M0 .5 8 4 0 7.5Z\"/></marker></defs>"
    );
    for (index, processor) in interval.processors.iter().enumerate() {
        let name = if many {
            format!("{} processors", snapshot.processors.len())
        } else {
            format!("processor {index}")
        };
        heading(&mut out, &layout, index, &name, processor, interval.seconds);
    }
    // Arcs are drawn below the boxes, so that they do not cover figures.
    arcs::draw(&mut out, &layout, interval, class);
    for (index, processor) in interval.processors.iter().enumerate() {
        for (stage, (name, figures)) in interval.stages.iter().zip(&processor.stages).enumerate() {
            boxes::draw(&mut out, layout.place(index, stage), name, figures);
        }
    }
    out.push_str("</svg>");
    out
}

/// Draws a processor's name and its time in cohorts, awake and asleep.
fn heading(
    out: &mut String,
    layout: &Layout,
    index: usize,
    name: &str,
    processor: &ProcessorInterval,
    seconds: f64,
) {
    let (x, y) = layout.heading(index);
    let width = layout::BOX_WIDTH;
    let ran: u64 = processor.stages.iter().map(|stage| stage.ran).sum();
    let rate = |n: u64| count(n as f64 / seconds.max(1e-9));
    let _ = write!(
        out,
        "<g transform=\"translate({x} {y})\"><text class=\"p\" y=\"12\">{name}</text>\
         <text class=\"n e\" x=\"{width}\" y=\"12\">{}/s · {} busy</text>\
         <rect class=\"rest\" y=\"19\" width=\"{width}\" height=\"5\" rx=\"2.5\"/>\
         <rect class=\"busy\" y=\"19\" width=\"{:.1}\" height=\"5\" rx=\"2.5\"/>\
         <title>{} asleep, {} operations alive, {} system calls/s</title></g>",
        rate(ran),
        percent(processor.utilisation),
        processor.utilisation * f64::from(width),
        percent(processor.asleep),
        count(processor.operations as f64),
        rate(processor.system_calls),
    );
}

#[cfg(test)]
mod tests;
