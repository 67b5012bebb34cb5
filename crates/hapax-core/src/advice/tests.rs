//! The function against the table as text, triple by triple.

use super::*;

const TABLE: &str = include_str!("table.txt");

const WORKS: [(&str, Work); 6] = [
    ("Untouched", Work::Untouched),
    ("NotRun", Work::NotRun),
    ("MayHaveRun", Work::MayHaveRun),
    ("Ended", Work::Ended(Effect::Done)),
    ("Ended", Work::Ended(Effect::Nothing)),
    ("Ended", Work::Ended(Effect::Unclear)),
];

const HISTORIES: [(&str, History); 5] = [
    ("Unasked", History::Unasked),
    ("Clean", History::Clean),
    ("MayHaveRun", History::MayHaveRun),
    ("Doubted", History::Doubted),
    ("Taken", History::Taken),
];

const WORDS: [(&str, LastWord); 16] = [
    ("Kept", LastWord::Kept(Effect::Done)),
    ("Kept", LastWord::Kept(Effect::Nothing)),
    ("Kept", LastWord::Kept(Effect::Unclear)),
    ("Differs", LastWord::Differs),
    ("OtherRecipe", LastWord::OtherRecipe),
    ("Invalid", LastWord::Invalid),
    ("Damaged", LastWord::Damaged),
    ("Broken", LastWord::Broken),
    ("Gone", LastWord::Gone),
    ("Held", LastWord::Held),
    ("InDoubt", LastWord::InDoubt),
    ("Spooled", LastWord::Spooled),
    ("NotYet", LastWord::NotYet),
    ("Away", LastWord::Away),
    ("GivenBack", LastWord::GivenBack),
    ("GivenBackByAnother", LastWord::GivenBackByAnother),
];

/// One row, as it is written.
pub(crate) struct Row<'a> {
    pub(crate) line: &'a str,
    cells: Vec<&'a str>,
}

pub(crate) fn rows() -> Vec<Row<'static>> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let rows: Vec<Row<'static>> =
        lines.map(|line| Row { line, cells: line.split('|').map(str::trim).collect() }).collect();
    assert!(rows.iter().all(|row| row.cells.len() == 6), "six columns");
    rows
}

/// The row that counts for a call.
pub(crate) fn first_row(
    rows: &[Row<'_>],
    work: Work,
    history: History,
    last: LastWord,
    delay: Delay,
    safe: bool,
) -> usize {
    let name =
        |names: &[(&'static str, bool)]| names.iter().find(|(_, is_it)| *is_it).expect("each has its name").0;
    let asked = (
        name(&WORKS.map(|(name, one)| (name, one == work))),
        name(&HISTORIES.map(|(name, one)| (name, one == history))),
        name(&WORDS.map(|(name, one)| (name, one == last))),
    );
    rows.iter().position(|row| row.matches(asked, delay, safe)).expect("the last row matches all")
}

fn names(cell: &str, name: &str) -> bool {
    cell == "any" || cell.split(',').any(|one| one.trim() == name)
}

impl Row<'_> {
    fn matches(&self, (work, history, word): (&str, &str, &str), delay: Delay, safe: bool) -> bool {
        let (words, condition) = match self.cells[2].split_once('[') {
            Some((words, condition)) => (words.trim(), condition.trim_end_matches(']')),
            None => (self.cells[2], ""),
        };
        let holds = match condition {
            "" => true,
            "service" => delay == Delay::Service,
            "safe" => safe,
            other => panic!("no such condition: {other}"),
        };
        names(self.cells[0], work) && names(self.cells[1], history) && names(words, word) && holds
    }

    fn executed(&self, work: Work, history: History, last: LastWord) -> Executed {
        let effect = match (last, work) {
            (LastWord::Kept(effect), _) | (_, Work::Ended(effect)) => Some(effect),
            _ => None,
        };
        let by_effect = || match effect.expect("only where there is an effect") {
            Effect::Done => Executed::Yes,
            Effect::Nothing if history == History::Clean => Executed::No,
            Effect::Nothing | Effect::Unclear => Executed::Unknown,
        };
        match self.cells[4] {
            "yes" => Executed::Yes,
            "no" => Executed::No,
            "unknown" => Executed::Unknown,
            "by effect" => by_effect(),
            "at least" if work == Work::Ended(Effect::Done) => Executed::Yes,
            "at least" => Executed::Unknown,
            "by history" if history == History::Clean => Executed::No,
            "by history" => Executed::Unknown,
            other => panic!("no such column: {other}"),
        }
    }

    fn retry(&self) -> Retry {
        match self.cells[5] {
            "never" => Retry::Never,
            "1 s" => Retry::SameKey(SOON),
            "10 s" => Retry::SameKey(LATER),
            other => panic!("no such column: {other}"),
        }
    }
}

#[test]
fn every_triple_is_told_what_the_table_says_e6() {
    let rows = rows();
    let mut used = vec![false; rows.len()];
    for (work_name, work) in WORKS {
        for (history_name, history) in HISTORIES {
            for (word_name, last) in WORDS {
                for delay in [Delay::None, Delay::Ledger, Delay::Service] {
                    for safe in [false, true] {
                        let asked = (work_name, history_name, word_name);
                        let first = rows.iter().position(|row| row.matches(asked, delay, safe));
                        let first = first.expect("the last row matches all");
                        used[first] = true;
                        let row = &rows[first];
                        let told = advice(work, history, last, delay, safe);
                        let wanted = (row.cells[3], row.executed(work, history, last), row.retry());
                        assert_eq!(
                            (told.why.code(), told.executed, told.retry),
                            wanted,
                            "{work:?}, {history:?}, {last:?}, {delay:?}, safe: {safe}\nrow: {}",
                            row.line
                        );
                    }
                }
            }
        }
    }
    let unused: Vec<&str> =
        rows.iter().zip(used).filter(|(_, used)| !used).map(|(row, _)| row.line).collect();
    assert!(unused.is_empty(), "rows that never match first: {unused:?}");
}

#[test]
fn without_a_key_only_what_certainly_did_not_run_may_be_sent_again_e2() {
    for (_, work) in WORKS {
        let told = unkeyed(work);
        let free = matches!(work, Work::Untouched | Work::NotRun);
        assert_eq!(told.why, Why::AttemptFailed);
        assert_eq!(told.executed, if free { Executed::No } else { Executed::Unknown }, "{work:?}");
        assert_eq!(told.retry == Retry::Never, !free, "{work:?}");
    }
}

#[test]
fn a_status_tells_what_was_done_h4() {
    for (status, effect) in [
        (0, Effect::Done),
        (200, Effect::Done),
        (302, Effect::Done),
        (399, Effect::Done),
        (400, Effect::Nothing),
        (499, Effect::Nothing),
        (500, Effect::Unclear),
        (599, Effect::Unclear),
    ] {
        assert_eq!(Effect::of_status(status), effect, "{status}");
    }
}
