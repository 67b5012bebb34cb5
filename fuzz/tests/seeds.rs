//! A short run of every target: its seeds, and mutations of them that are the same in every run.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use hapax_fuzz::{TARGETS, Target, broken};

/// Mutations of each target: enough to run into every branch again, and a few seconds in all.
const MUTATIONS: usize = 4_000;
/// The longest input that mutations grow to.
const LONGEST: usize = 2 << 10;
/// What mutations put in, so that they find more than bad syntax.
const WORDS: [&[u8]; 22] = [
    b"\r\n",
    b"\n",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"\"",
    b"\\",
    b"%2e",
    b"%41",
    b"..",
    b"//",
    b"0\r\n\r\n",
    b"content-length: 5\r\n",
    b"transfer-encoding: chunked\r\n",
    b"connection: close\r\n",
    b"GET / HTTP/1.1\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"ffffffffffffffff",
    b"t-acme:web:user:u-1:",
    b"9007199254740993",
];

fn seeds_of(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let mut seeds: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|file| file.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    seeds.sort();
    seeds
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    /// One of these inputs, changed in up to four places.
    fn mutate(&mut self, seeds: &[(PathBuf, Vec<u8>)]) -> Vec<u8> {
        let mut input = seeds[self.below(seeds.len())].1.clone();
        for _ in 0..=self.below(4) {
            let at = self.below(input.len() + 1);
            match self.below(6) {
                0 if at < input.len() => input[at] ^= 1 << self.below(8),
                1 if at < input.len() => input[at] = self.below(256) as u8,
                2 => drop(input.drain(at..(at + 1 + self.below(8)).min(input.len()).max(at))),
                3 => drop(input.splice(at..at, WORDS[self.below(WORDS.len())].iter().copied())),
                4 => {
                    let other = &seeds[self.below(seeds.len())].1;
                    input.truncate(at);
                    input.extend_from_slice(&other[self.below(other.len())..]);
                }
                _ => {
                    let to = (at + self.below(32)).min(input.len());
                    let again = input[at..to].to_vec();
                    input.splice(at..at, again);
                }
            }
        }
        input.truncate(LONGEST);
        input
    }
}

/// Runs a target, and says how to repeat what it found.
fn run(name: &str, target: Target, input: &[u8], origin: &str) {
    if catch_unwind(|| target(input)).is_err() {
        let text = input.escape_ascii();
        panic!("{name} fails on {origin}; put these bytes into fuzz/seeds/{name}: {text}");
    }
}

/// The inputs of a short run: the seeds, and mutations of them.
fn inputs(name: &str) -> impl Iterator<Item = (String, Vec<u8>)> {
    let seeds = seeds_of(name);
    assert!(!seeds.is_empty(), "{name} has seeds");
    let as_they_are: Vec<_> =
        seeds.iter().map(|(path, seed)| (path.display().to_string(), seed.clone())).collect();
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mutations = (0..MUTATIONS).map(move |number| (format!("mutation {number}"), dice.mutate(&seeds)));
    as_they_are.into_iter().chain(mutations)
}

/// One test for each target, so that they run beside each other.
macro_rules! short_runs {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            let name = stringify!($name);
            for (origin, input) in inputs(name) {
                run(name, hapax_fuzz::$name, &input, &origin);
            }
        })*

        const RUN: &[&str] = &[$(stringify!($name)),*];
    };
}

short_runs!(
    request_head,
    response_head,
    chunked_body,
    against_hyper,
    key_header,
    canonical_json,
    configuration,
);

#[test]
fn every_target_fails_when_its_subject_is_broken() {
    for (name, target) in TARGETS {
        let fails = |input: &[u8]| catch_unwind(|| broken(|| target(input))).is_err();
        let found = inputs(name).find(|(_, input)| fails(input));
        let (origin, input) = found.unwrap_or_else(|| panic!("{name} does not find what is broken"));
        println!("{name} fails on {origin}");
        target(&input);
    }
}

#[test]
fn every_target_has_a_short_run_and_a_program() {
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, RUN);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("libfuzzer");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for name in names {
        let program = std::fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(program.contains(&format!("hapax_fuzz::{name}(")), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}
