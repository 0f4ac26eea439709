//! Arcs, which show operations that one stage started or resumed on another. The width shows the rate.
//!
//! Arcs between adjacent stages run between the boxes. Longer arcs run on the left if they go down, and on the right if
//! they go up. Arcs between processors cross the picture if all processors are in one row and there are not too many.
//! Otherwise one short arc shows all operations from other processors.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::escape;
use super::layout::{BOX_HEIGHT, BOX_WIDTH, Layout, Place};
use crate::metrics::Interval;
use crate::metrics::human::count;

/// The maximum number of crossing arcs; more would hide each other.
const MAX_CROSSING: usize = 40;
/// The maximum number of crossing arcs with labels.
const MAX_LABELLED: usize = 12;

pub(super) fn draw(out: &mut String, layout: &Layout, interval: &Interval, class: &str) {
    let mut pen = Pen { out, layout, interval, class };
    let is_crossing = |from: Option<(usize, usize)>, to: (usize, usize)| {
        from.is_some_and(|(processor, _)| processor != to.0)
    };
    let crossing = interval.arcs.iter().filter(|arc| is_crossing(arc.from, arc.to)).count();
    let draws_arrows = layout.is_one_row() && crossing <= MAX_CROSSING;
    let mut stubs: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for arc in &interval.arcs {
        match arc.from {
            None => pen.external(arc.to, arc.count),
            Some(from) if from.0 == arc.to.0 => pen.within_column(from, arc.to, arc.count),
            Some(from) if draws_arrows => {
                pen.across(from, arc.to, arc.count, crossing <= MAX_LABELLED)
            }
            Some(_) => *stubs.entry(arc.to).or_default() += arc.count,
        }
    }
    for (to, count) in stubs {
        pen.stub(to, count);
    }
}

struct Pen<'a> {
    out: &'a mut String,
    layout: &'a Layout,
    interval: &'a Interval,
    class: &'a str,
}

impl Pen<'_> {
    fn rate(&self, count: u64) -> f64 {
        count as f64 / self.interval.seconds.max(1e-9)
    }

    fn name(&self, (processor, stage): (usize, usize)) -> String {
        format!("{} on {processor}", escape(&self.interval.stages[stage]))
    }

    fn arc(&mut self, kind: &str, path: &str, n: u64, title: &str) {
        let rate = self.rate(n);
        let width = (0.8 + 1.2 * (1.0 + rate).log10()).min(8.0);
        let _ = write!(
            self.out,
            "<path class=\"arc {kind}\" d=\"{path}\" stroke-width=\"{width:.1}\" \
             marker-end=\"url(#{}-tip)\"><title>{title}: {} operations/s</title></path>",
            self.class,
            count(rate),
        );
    }

    fn label(&mut self, kind: &str, x: u32, y: u32, n: u64) {
        let rate = count(self.rate(n));
        let _ = write!(self.out, "<text class=\"a {kind}\" x=\"{x}\" y=\"{y}\">{rate}</text>");
    }

    /// Draws the arc of operations from I/O, timers and other threads.
    fn external(&mut self, to: (usize, usize), n: u64) {
        let Place { x, y } = self.layout.place(to.0, to.1);
        let title = format!("from I/O, timers and other threads to {}", self.name(to));
        self.arc("out", &format!("M{} {}H{}", x - 52, y + 24, x - 2), n, &title);
        self.label("", x - 52, y + 15, n);
    }

    /// Draws the short arc of operations from other processors.
    fn stub(&mut self, to: (usize, usize), n: u64) {
        let Place { x, y } = self.layout.place(to.0, to.1);
        let right = x + BOX_WIDTH;
        let title = format!("from other processors to {}", self.name(to));
        self.arc("cross", &format!("M{} {}H{}", right + 42, y + 24, right + 2), n, &title);
        self.label("e", right + 46, y + 15, n);
    }

    fn within_column(&mut self, from: (usize, usize), to: (usize, usize), n: u64) {
        let title = format!("{} to {}", self.name(from), self.name(to));
        let (a, b) = (self.layout.place(from.0, from.1), self.layout.place(to.0, to.1));
        let middle = |place: Place| place.y + BOX_HEIGHT / 2;
        let right = a.x + BOX_WIDTH;
        match to.1 as i64 - from.1 as i64 {
            0 => {
                let y = middle(a);
                let path = format!(
                    "M{right} {} C{} {} {} {} {} {}",
                    y - 10,
                    right + 30,
                    y - 18,
                    right + 30,
                    y + 18,
                    right + 2,
                    y + 10,
                );
                self.arc("", &path, n, &title);
                self.label("", right + 14, y - 17, n);
            }
            1 => {
                let (x, top, bottom) = (a.x + 110, a.y + BOX_HEIGHT, b.y - 2);
                self.arc("", &format!("M{x} {top}V{bottom}"), n, &title);
                self.label("e", x - 8, top + 20, n);
            }
            -1 => {
                let (x, top, bottom) = (a.x + 190, b.y + BOX_HEIGHT + 2, a.y);
                self.arc("", &format!("M{x} {bottom}V{top}"), n, &title);
                self.label("", x + 8, top + 18, n);
            }
            down @ 2.. => {
                let out = (10 + 9 * down as u32).min(46);
                let (y, z) = (middle(a) + 20, middle(b) - 4);
                let lane = a.x - out;
                let path = format!("M{} {y}C{lane} {y} {lane} {z} {} {z}", a.x, b.x - 2);
                self.arc("", &path, n, &title);
                self.label("m", a.x - out * 3 / 4, (y + z) / 2, n);
            }
            up => {
                let out = (10 + 9 * up.unsigned_abs() as u32).min(46);
                let (y, z) = (middle(a) - 20, middle(b) + 4);
                let lane = right + out;
                let path = format!("M{right} {y}C{lane} {y} {lane} {z} {} {z}", right + 2);
                self.arc("", &path, n, &title);
                self.label("m", right + out * 3 / 4, (y + z) / 2, n);
            }
        }
    }

    fn across(&mut self, from: (usize, usize), to: (usize, usize), n: u64, labelled: bool) {
        let title = format!("{} to {}", self.name(from), self.name(to));
        let (a, b) = (self.layout.place(from.0, from.1), self.layout.place(to.0, to.1));
        let rightwards = a.x < b.x;
        let (x, end) =
            if rightwards { (a.x + BOX_WIDTH, b.x - 2) } else { (a.x, b.x + BOX_WIDTH + 2) };
        // Keep arcs in opposite directions apart.
        let (y, z) = if rightwards { (a.y + 66, b.y + 52) } else { (a.y + 88, b.y + 102) };
        let control_point = |x: u32, right: bool| if right { x + 45 } else { x - 45 };
        let path = format!(
            "M{x} {y}C{} {y} {} {z} {end} {z}",
            control_point(x, rightwards),
            control_point(end, !rightwards)
        );
        self.arc("cross", &path, n, &title);
        if labelled {
            self.label("m", x.midpoint(end), y.midpoint(z) - 4, n);
        }
    }
}
