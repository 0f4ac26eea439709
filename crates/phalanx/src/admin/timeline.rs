//! `/trace.json?seconds=N`: all cohorts of N seconds as Chrome trace events, for ui.perfetto.dev and
//! chrome://tracing.
//!
//! Each processor is a track, each cohort a slice, and each stage's queue a counter. An arrow leads from a
//! cohort to the first cohort that ran operations it invoked. There is at most one arrow for each pair of
//! stages in a cohort, so arrows show a sample of the invocations. Only one trace runs at a time; further
//! requests are rejected.

use std::fmt::Write;
use std::time::Duration;

use phalanx_core::{CohortRecord, Trace, yield_now};

use super::Source;
use super::http::{Answer, Connection, Method, Request};
use super::pages::pause;

/// Maximum number of records of all processors together. They take 5 MiB, because a record has 40 bytes.
const MAX_RECORDS: usize = 1 << 17;
/// Cohorts rendered between yields, about 60 KiB of text.
const COHORTS_PER_YIELD: usize = 256;
/// Number of earlier cohorts searched for the start of an arrow.
const MAX_ARROW_COHORTS: usize = 256;

/// An accepted request.
pub(super) struct TraceRequest {
    trace: Option<Trace>,
    time: Duration,
}

/// Starts the trace, or returns an error response.
pub(super) fn start(request: &Request, source: &Source) -> Result<TraceRequest, Answer> {
    let time = match request.parameter("seconds").map(str::parse::<f64>) {
        None => 1.0,
        Some(Ok(seconds)) if (0.01..=30.0).contains(&seconds) => seconds,
        Some(_) => return Err(Answer::text("400 Bad Request", "seconds must be 0.01 to 30\n")),
    };
    let time = Duration::from_secs_f64(time);
    if request.method == Method::Head {
        return Ok(TraceRequest { trace: None, time });
    }
    let capacity = (MAX_RECORDS / source.control.processors()).max(64);
    match source.control.trace(capacity) {
        Some(trace) => Ok(TraceRequest { trace: Some(trace), time }),
        None => {
            let message = "another trace is running, for at most 30 seconds; try again\n";
            Err(Answer { fields: "Retry-After: 2\r\n", ..Answer::text("409 Conflict", message) })
        }
    }
}

/// Waits for the end of the trace and sends it.
pub(super) async fn serve(
    request: TraceRequest,
    client: &mut Connection,
    source: &Source,
) -> std::io::Result<()> {
    let fields = "Content-Disposition: attachment; filename=\"phalanx-trace.json\"\r\n";
    let Some(trace) = request.trace else {
        return client.begin("application/json", fields).await.map(|_| ());
    };
    pause(request.time).await;
    trace.stop();
    let stages: Vec<_> = source.control.stages().collect();
    let count = source.control.processors();
    let dropped: u64 = (0..count).map(|processor| trace.dropped(processor)).sum();
    let timeline = Timeline::new(&stages, (0..count).map(|index| trace.take(index)).collect());
    drop(trace);
    client.begin("application/json", fields).await?;
    client.piece(timeline.head(dropped)).await?;
    for processor in 0..count {
        let mut pending = vec![None; stages.len()];
        let records = timeline.processors[processor].len();
        for from in (0..records).step_by(COHORTS_PER_YIELD) {
            let to = records.min(from + COHORTS_PER_YIELD);
            client.piece(timeline.piece(processor, from..to, &mut pending)).await?;
            yield_now().await;
        }
    }
    client.piece("\n]}\n".to_owned()).await?;
    client.end().await
}

/// A recorded trace.
struct Timeline {
    /// Stage names as JSON strings.
    stages: Vec<String>,
    processors: Vec<Vec<CohortRecord>>,
}

/// The start of an arrow: track and microseconds.
type Tail = Option<(usize, f64)>;

fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

impl Timeline {
    fn new(stages: &[&str], processors: Vec<Vec<CohortRecord>>) -> Self {
        let quoted = |name: &&str| serde_json::to_string(name).expect("a string");
        Self { stages: stages.iter().map(quoted).collect(), processors }
    }

    /// Renders the start of the file, with the tracks' names.
    fn head(&self, dropped: u64) -> String {
        let mut out = format!(
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"dropped_cohorts\":{dropped}}},\
             \"traceEvents\":[\n{{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\
             \"args\":{{\"name\":\"phalanx\"}}}}"
        );
        for processor in 0..self.processors.len() {
            let _ = write!(
                out,
                ",\n{{\"ph\":\"M\",\"pid\":1,\"tid\":{},\"name\":\"thread_name\",\
                 \"args\":{{\"name\":\"processor {processor}\"}}}}",
                processor + 1
            );
        }
        out
    }

    /// Renders some cohorts of a processor. `pending[stage]` is the last cohort that invoked that stage.
    fn piece(
        &self,
        processor: usize,
        range: std::ops::Range<usize>,
        pending: &mut [Tail],
    ) -> String {
        let mut out = String::with_capacity(COHORTS_PER_YIELD * 256);
        let first = range.start;
        for (offset, record) in self.processors[processor][range].iter().enumerate() {
            let (start, end) = (micros(record.start_ns), micros(record.end_ns));
            let (stage, tid) = (&self.stages[usize::from(record.stage)], processor + 1);
            let _ = write!(
                out,
                ",\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{tid},\"ts\":{start:.3},\"dur\":{:.3},\
                 \"cat\":\"cohort\",\"name\":{stage},\
                 \"args\":{{\"operations\":{},\"queued\":{}}}}}",
                (end - start).max(0.001),
                record.size,
                record.queued,
            );
            // Counters are identified by name, so the name contains the processor.
            let bare = &stage[1..stage.len() - 1];
            let _ = write!(
                out,
                ",\n{{\"ph\":\"C\",\"pid\":1,\"ts\":{start:.3},\
                 \"name\":\"queue {processor}: {bare}\",\"args\":{{\"operations\":{}}}}}",
                record.queued,
            );
            let id = |kind: usize| ((processor << 32) | (first + offset)) * 2 + kind;
            if let Some((tid, at)) = pending[usize::from(record.stage)].take() {
                arrow(&mut out, id(0), (tid, at), (processor + 1, start));
            }
            if let Some(tail) = record.crossed.and_then(|from| self.crossed(from, record)) {
                arrow(&mut out, id(1), tail, (processor + 1, start));
            }
            let middle = (start + end) / 2.0;
            for (to, tail) in pending.iter_mut().enumerate() {
                if record.invoked >> to & 1 == 1 {
                    *tail = Some((tid, middle));
                }
            }
        }
        out
    }

    /// The cohort on another processor that sent operations of `record`, which is the last one of that stage that
    /// started before `record`.
    fn crossed(&self, from: (u16, u8), record: &CohortRecord) -> Tail {
        let cohorts = self.processors.get(usize::from(from.0))?;
        let started = cohorts.partition_point(|cohort| cohort.start_ns <= record.start_ns);
        let mut before = cohorts[..started].iter().rev().take(MAX_ARROW_COHORTS);
        let cohort = before.find(|cohort| cohort.stage == from.1)?;
        let middle = (micros(cohort.start_ns) + micros(cohort.end_ns)) / 2.0;
        // An arrow must not point back in time.
        Some((usize::from(from.0) + 1, middle.min(micros(record.start_ns))))
    }
}

fn arrow(out: &mut String, id: usize, tail: (usize, f64), head: (usize, f64)) {
    for (phase, (tid, at), binding) in [("s", tail, ""), ("f", head, ",\"bp\":\"e\"")] {
        let _ = write!(
            out,
            ",\n{{\"ph\":\"{phase}\",\"pid\":1,\"tid\":{tid},\"ts\":{at:.3},\"id\":{id},\
             \"cat\":\"invocation\",\"name\":\"invocation\"{binding}}}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn record(stage: u8, start_ns: u64, end_ns: u64, invoked: u64) -> CohortRecord {
        CohortRecord { stage, size: 5, queued: 9, start_ns, end_ns, invoked, crossed: None }
    }

    fn events(timeline: &Timeline) -> Vec<Value> {
        let mut text = timeline.head(3);
        for (processor, records) in timeline.processors.iter().enumerate() {
            let mut pending = vec![None; timeline.stages.len()];
            // In two pieces, to check that pending arrows are carried over.
            let cut = records.len() / 2;
            text += &timeline.piece(processor, 0..cut, &mut pending);
            text += &timeline.piece(processor, cut..records.len(), &mut pending);
        }
        let trace: Value = serde_json::from_str(&(text + "\n]}\n")).expect("JSON");
        assert_eq!(trace["otherData"]["dropped_cohorts"], 3);
        trace["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn cohorts_are_slices_and_invocations_arrows() {
        let crossing = CohortRecord { crossed: Some((0, 0)), ..record(1, 7_000, 9_000, 0) };
        let here = vec![record(0, 1_000, 3_000, 0b10), record(1, 3_000, 5_000, 0)];
        let timeline = Timeline::new(&["a \"front\"", "back"], vec![here, vec![crossing]]);
        let events = events(&timeline);
        let of = |phase: &str| -> Vec<&Value> {
            events.iter().filter(|event| event["ph"] == phase).collect()
        };
        let slices = of("X");
        assert_eq!(slices.len(), 3);
        assert_eq!((&slices[0]["name"], &slices[0]["tid"]), (&"a \"front\"".into(), &1.into()));
        assert_eq!((&slices[0]["ts"], &slices[0]["dur"]), (&1.0.into(), &2.0.into()));
        assert_eq!(slices[0]["args"]["operations"], 5);
        assert_eq!(of("C").len(), 3);
        let (tails, heads) = (of("s"), of("f"));
        assert_eq!((tails.len(), heads.len()), (2, 2));
        for (tail, head) in tails.iter().zip(&heads) {
            assert_eq!(tail["id"], head["id"]);
            assert!(tail["ts"].as_f64() <= head["ts"].as_f64());
        }
        assert_ne!(tails[0]["id"], tails[1]["id"]);
        assert_eq!((&tails[1]["tid"], &heads[1]["tid"]), (&1.into(), &2.into()));
        assert_eq!(of("M").len(), 3);
    }
}
