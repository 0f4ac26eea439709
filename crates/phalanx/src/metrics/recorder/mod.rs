//! The recorder for the crate `metrics`, whose macros many libraries use. `render.rs` renders its text.

mod render;

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use ::metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit,
};

use self::render::Pieces;

use crate::lock::lock;

/// The maximum number of series, and of descriptions, of a recorder. Further registrations of series are counted but
/// not recorded.
const MAX_SERIES: usize = 10_000;

/// The number of buckets of a histogram. Their upper bounds are powers of 4 from about 10⁻⁶ to 10⁶, which suits times
/// in seconds and sizes of up to a mebibyte.
const BUCKETS: usize = 21;

/// Records what libraries and the program report through the macros of the crate `metrics` (`counter!`, `gauge!`,
/// `histogram!`), and publishes it in `/metrics`.
///
/// Clones share the series. Names and labels may contain any characters; characters other than letters, digits and
/// underscores become underscores. A histogram has buckets for powers of 4 from about 10⁻⁶ to 10⁶, and ignores NaN. The
/// suffix `_total` is not part of a name: `/metrics` adds it to counters. So a gauge `jobs` and a counter `jobs_total`
/// have the same name, and if metrics of different kinds have the same name, only the first kind is recorded. The page
/// omits names that begin with `phalanx_` and names of metrics that are registered with the runtime. A recorder has at
/// most 10,000 series; `phalanx_recorder_series_refused` counts the registrations of further ones.
///
/// ```
/// use phalanx::Runtime;
/// use phalanx::metrics::Recorder;
///
/// let recorder = Recorder::new();
/// metrics::set_global_recorder(recorder.clone())?;
/// let runtime = Runtime::new().recorder(&recorder);
/// metrics::counter!("orders.placed", "shop" => "north").increment(2);
/// assert!(recorder.render().contains("orders_placed_total{shop=\"north\"} 2\n"));
/// # let _ = runtime;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Registry>>);

#[derive(Default)]
struct Registry {
    families: BTreeMap<String, Family>,
    series: usize,
    /// The number of registrations that were not recorded, because they exceeded the limit or had the name of a family
    /// of another kind.
    rejected: u64,
}

#[derive(Default)]
struct Family {
    help: String,
    /// The series, by their rendered labels. All are of the same kind.
    series: BTreeMap<String, Series>,
}

#[derive(Clone)]
enum Series {
    Counter(Arc<AtomicU64>),
    /// The bits of a float.
    Gauge(Arc<AtomicU64>),
    Histogram(Arc<Distribution>),
}

impl Series {
    fn kind(&self) -> &'static str {
        match self {
            Self::Counter(_) => "counter",
            Self::Gauge(_) => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// The values of a histogram.
#[derive(Default)]
struct Distribution {
    buckets: [AtomicU64; BUCKETS],
    count: AtomicU64,
    /// The bits of a float.
    sum: AtomicU64,
}

/// The upper bound of a bucket.
fn bound(bucket: usize) -> f64 {
    4_f64.powi(bucket as i32 - 10)
}

impl HistogramFn for Distribution {
    fn record(&self, value: f64) {
        // The sum would become NaN.
        if value.is_nan() {
            return;
        }
        if let Some(bucket) = (0..BUCKETS).find(|bucket| value <= bound(*bucket)) {
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let added = |bits| Some((f64::from_bits(bits) + value).to_bits());
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    }
}

impl Recorder {
    /// A recorder without series.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        lock(&self.0)
    }

    /// All series as OpenMetrics text, without the end marker of a page.
    pub fn render(&self) -> String {
        self.pieces(|_| true).collect()
    }

    /// The same text in pieces, so that a page can yield between them. `publishes` selects families by name.
    pub(crate) fn pieces<F: Fn(&str) -> bool>(&self, publishes: F) -> Pieces<'_, F> {
        Pieces::new(self, publishes)
    }

    fn describe(&self, key: &KeyName, unit: Option<Unit>, help: &str) {
        let mut described = help.replace('\\', "\\\\").replace('\n', "\\n");
        if let Some(unit) = unit {
            let _ = write!(described, " ({})", unit.as_str());
        }
        let (mut registry, name) = (self.lock(), family_name(key.as_str()));
        if registry.families.len() < MAX_SERIES || registry.families.contains_key(&name) {
            registry.families.entry(name).or_default().help = described;
        }
    }

    /// The series of this key, which `make` creates if it does not exist. Returns `None` if it cannot be recorded.
    fn series(&self, key: &Key, make: impl FnOnce() -> Series) -> Option<Series> {
        let (mut registry, series) = (self.lock(), make());
        let registry = &mut *registry;
        let (name, labels) = (family_name(key.name()), labels(key, &series));
        let family = registry.families.get(&name);
        let any = family.and_then(|family| family.series.values().next());
        let is_other = any.is_some_and(|one| one.kind() != series.kind());
        if let Some(known) = family.and_then(|family| family.series.get(&labels))
            && !is_other
        {
            return Some(known.clone());
        }
        if is_other || registry.series == MAX_SERIES {
            registry.rejected += 1;
            return None;
        }
        registry.series += 1;
        registry.families.entry(name).or_default().series.insert(labels, series.clone());
        Some(series)
    }
}

impl ::metrics::Recorder for Recorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&key, unit, &help);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&key, unit, &help);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&key, unit, &help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match self.series(key, || Series::Counter(Arc::default())) {
            Some(Series::Counter(count)) => Counter::from_arc(count),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match self.series(key, || Series::Gauge(Arc::default())) {
            Some(Series::Gauge(bits)) => Gauge::from_arc(bits),
            _ => Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match self.series(key, || Series::Histogram(Arc::default())) {
            Some(Series::Histogram(values)) => Histogram::from_arc(values),
            _ => Histogram::noop(),
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("series", &self.lock().series).finish_non_exhaustive()
    }
}

/// Converts a name into one that OpenMetrics permits. `/metrics` adds the suffix of counters.
fn family_name(name: &str) -> String {
    permitted(name.strip_suffix("_total").unwrap_or(name))
}

fn permitted(name: &str) -> String {
    let permits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let replaced = name.chars().map(|c| if permits(c) { c } else { '_' });
    let digit = name.starts_with(|first: char| first.is_ascii_digit());
    if digit || name.is_empty() {
        "_".chars().chain(replaced).collect()
    } else {
        replaced.collect()
    }
}

/// The rendered labels of a key, in the order of their names. A name occurs only once, because a duplicate would make
/// the whole page invalid. In histograms, the name `le` is reserved for the buckets.
fn labels(key: &Key, series: &Series) -> String {
    let is_histogram = matches!(series, Series::Histogram(_));
    let name = |label: &str| match permitted(label) {
        name if name == "le" && is_histogram => "le_".into(),
        name => name,
    };
    let mut pairs: Vec<_> = key.labels().map(|label| (name(label.key()), label.value())).collect();
    pairs.sort();
    pairs.dedup_by(|(second, _), (first, _)| first == second);
    let rendered = pairs.into_iter().map(|(name, value)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        format!("{name}=\"{}\"", value.replace('\n', "\\n"))
    });
    rendered.collect::<Vec<_>>().join(",")
}
