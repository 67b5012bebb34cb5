//! What a configuration may say about operations, given what the registry keeps (K6, P5). Nothing is written here.

use std::collections::{HashMap, HashSet};

use hapax_core::{Error, Filter, Inspect, Operation};
use hapax_gateway::settings::Fixed;

use super::documents::{Name, Registered, Write};
use super::{Elsewhere, IdentifiedBy, Operations, Stated, claims_among, claims_of, mistake};
use crate::config::{Mistake, Pattern, Place, Within, level_word};

/// How a new name that shares no key with the old one is written, and what that means.
const NEW_KEYS: &str = "give the operation a new name, say `was = []` there and name the old one in `retired`: then its keys are new, \
     and a key that was used before runs again";

/// One look at a configuration.
pub(super) struct Deciding<'a, I> {
    registered: &'a Registered,
    inspect: &'a I,
    elsewhere: Elsewhere,
    /// What is to be written.
    pub(super) writes: Vec<Write>,
    /// Whether some of that is right only if there is no other process.
    pub(super) is_alone: bool,
    pub(super) refused: Vec<Mistake>,
    pub(super) notices: Vec<String>,
    /// How many claims rest on operations that were asked about.
    counted: HashMap<&'a str, u64>,
}

impl<'a, I: Inspect> Deciding<'a, I> {
    pub(super) fn new(registered: &'a Registered, inspect: &'a I, elsewhere: Elsewhere) -> Self {
        Deciding {
            registered,
            inspect,
            elsewhere,
            writes: Vec::new(),
            is_alone: false,
            refused: Vec::new(),
            notices: Vec::new(),
            counted: HashMap::new(),
        }
    }

    /// The first names of all operations, in the order of their routes.
    pub(super) async fn decide(&mut self, operations: &Operations) -> Result<Vec<Operation>, Error> {
        let (mut firsts, mut routes) = (Vec::new(), HashMap::new());
        for stated in &operations.keyed {
            let first = match self.first_name(stated) {
                Ok(first) => first,
                Err(refused) => {
                    self.refused.push(refused);
                    continue;
                }
            };
            if let Some(other) = routes.insert(first.clone(), stated) {
                let what = format!(
                    "it is the same operation as {:?}, at {}: both were {:?} first",
                    other.name.as_str(),
                    other.place.short(),
                    first.as_str()
                );
                let remedy = "give one of them a name that no operation had before";
                self.refused.push(mistake(stated, what, remedy));
            }
            self.endpoint(stated, &first).await?;
            self.identity(stated, &first).await?;
            self.labels(stated, &first)?;
            firsts.push(first);
        }
        Ok(firsts)
    }

    /// The name that the registry keeps as the first one of this operation; if it knows none of its names, the oldest of them.
    fn first_name(&mut self, stated: &Stated) -> Result<Operation, Mistake> {
        let was = stated.was.as_deref().unwrap_or_default();
        let mut known: Option<(&Operation, &str)> = None;
        for name in std::iter::once(&stated.name).chain(was) {
            let Some(first) = self.registered.first_of(name.as_str()) else { continue };
            match known {
                Some((other, another)) if another != first => {
                    let what = format!(
                        "`was`: {:?} and {:?} are two operations, and a key may have been used under both",
                        other.as_str(),
                        name.as_str()
                    );
                    return Err(mistake(stated, what, "give it a name that no operation had before"));
                }
                _ => known = Some((name, first)),
            }
        }
        let Some((_, first)) = known else {
            let oldest = was.last().unwrap_or(&stated.name);
            if !was.is_empty() {
                self.notices.push(format!(
                    "{}: the store knows no operation {:?}",
                    stated.place,
                    oldest.as_str()
                ));
            }
            return Ok(oldest.clone());
        };
        if stated.was.as_ref().is_some_and(Vec::is_empty) && first != stated.name.as_str() {
            let what = format!("`was = []` says that its keys are new, and it was {first:?} before");
            return Err(mistake(stated, what, "give it a name that no operation had before"));
        }
        Operation::new(first).map_err(|error| mistake(stated, error, "mend the registry"))
    }

    /// Another name on a method and path that has an operation: keys that were used there would run again.
    async fn endpoint(&mut self, stated: &Stated, first: &Operation) -> Result<(), Error> {
        let present = self.registered.operation_at(&stated.endpoint);
        if present == Some(first.as_str()) {
            return Ok(());
        }
        if let Some(present) = present.filter(|_| !stated.was.as_ref().is_some_and(Vec::is_empty)) {
            let claims = claims_of(self.inspect, present).await?;
            if let Some(why) = self.rests(claims, "it") {
                let what = format!("{} is the operation {present:?}, and {why}", stated.endpoint);
                let remedy = format!(
                    "say `was = {present:?}` if this is its new name: then its keys stay used; say `was = []` if not: \
                     then a key that was used before runs again"
                );
                self.refused.push(mistake(stated, what, remedy));
                return Ok(());
            }
            self.is_alone = true;
        }
        if present.is_none() && !stated.was.as_ref().is_some_and(Vec::is_empty) {
            self.around(stated, first).await?;
        }
        self.writes.push(self.registered.keep_endpoint(&stated.endpoint, first.as_str())?);
        Ok(())
    }

    /// A new endpoint beside a wider one: what comes to it now came to that one before, such as to a catch-all that protects whatever
    /// has no route of its own yet. Keys that were used there would run again.
    async fn around(&mut self, stated: &Stated, first: &Operation) -> Result<(), Error> {
        let Ok(path) = Pattern::of_route(&stated.path) else { return Ok(()) };
        for present in self.registered.operations_around(&stated.method, &path) {
            if present == first.as_str() {
                continue;
            }
            let claims = match self.counted.get(present) {
                Some(claims) => *claims,
                None => claims_of(self.inspect, present).await?,
            };
            self.counted.insert(present, claims);
            if claims > 0 {
                let what = format!(
                    "requests of {} were those of the operation {present:?} so far, which is wider, and claims rest on it (claims: {claims})",
                    stated.endpoint
                );
                let remedy = "say `was = []`: then a key that was used there before runs again under this operation; or wait until \
                              these claims have ended";
                self.refused.push(mistake(stated, what, remedy));
                break;
            }
        }
        Ok(())
    }

    /// What the claims of an operation are identified by changes only at a start, without claims and without other processes.
    async fn identity(&mut self, stated: &Stated, first: &Operation) -> Result<(), Error> {
        let asked = stated.identified_by.clone();
        let kept = match self.registered.name(first.as_str()) {
            None => {
                self.writes.push(self.registered.keep_name(first.as_str(), asked.into())?);
                return Ok(());
            }
            Some(Name::Later(_)) => {
                return Err(Error::corrupt("a later name of an operation is kept as its first one"));
            }
            Some(kept) => kept.clone(),
        };
        let changes = changes(&kept, &asked);
        if !changes.is_empty() {
            let mut claims = 0;
            for change in &changes {
                claims = claims.max(claims_among(self.inspect, first.as_str(), change.among.clone()).await?);
            }
            if let Some(why) = self.rests(claims, "the operation") {
                let changes: Vec<_> = changes.into_iter().map(|change| change.what).collect();
                let what = format!("{} was changed while {why}", changes.join(" and "));
                self.refused.push(mistake(stated, what, self.remedy(claims)));
                return Ok(());
            }
            self.is_alone = true;
        }
        let wanted = merged(&kept, asked);
        if wanted != kept {
            self.writes.push(self.registered.keep_name(first.as_str(), wanted)?);
        }
        Ok(())
    }

    /// All later names lead to the first one, so that a process with any of them shares its claims.
    fn labels(&mut self, stated: &Stated, first: &Operation) -> Result<(), Error> {
        for name in std::iter::once(&stated.name).chain(stated.was.iter().flatten()) {
            if name != first && self.registered.name(name.as_str()).is_none() {
                let later = Name::Later(first.as_str().to_owned());
                self.writes.push(self.registered.keep_name(name.as_str(), later)?);
            }
        }
        Ok(())
    }

    /// Operations that are served and would not be any more, although claims rest on them: refused, unless they are retired.
    pub(super) async fn dropped(
        &mut self,
        operations: &Operations,
        served: &[Operation],
        firsts: &[Operation],
    ) -> Result<(), Error> {
        let left = served.iter().filter(|first| !firsts.contains(first)).map(Operation::as_str);
        for (name, claims) in self.without_route(operations, left).await? {
            self.refused.push(Mistake {
                place: Place { file: operations.file.clone(), within: Within::File },
                what: format!(
                    "the operation {name:?} has no route any more, and claims rest on it (claims: {claims})"
                ),
                remedy: format!(
                    "keep its route; or say `retired = [{name:?}]` if nobody is to find them any more"
                ),
            });
        }
        Ok(())
    }

    /// Operations that the store knows and no route has: told, unless they are retired. Another process may serve them.
    pub(super) async fn forsaken(
        &mut self,
        operations: &Operations,
        firsts: &[Operation],
    ) -> Result<(), Error> {
        let known: HashSet<&str> = firsts.iter().map(Operation::as_str).collect();
        let left = self.registered.firsts().filter(|first| !known.contains(first));
        let mut forsaken = self.without_route(operations, left).await?;
        forsaken.sort_unstable();
        if !forsaken.is_empty() {
            let named: Vec<String> =
                forsaken.iter().map(|(name, claims)| format!("{name:?} (claims: {claims})")).collect();
            self.notices.push(format!(
                "claims rest on operations that no route has here: {}. Where one was renamed, say `was`; where it has ended, say \
                 `retired`",
                named.join(", ")
            ));
        }
        Ok(())
    }

    /// Those of these operations that are not retired and have claims, with how many.
    async fn without_route<'n>(
        &self,
        operations: &Operations,
        firsts: impl Iterator<Item = &'n str>,
    ) -> Result<Vec<(&'n str, u64)>, Error> {
        let retired = operations.retired.iter().map(Operation::as_str);
        let retired: HashSet<&str> =
            retired.map(|name| self.registered.first_of(name).unwrap_or(name)).collect();
        let mut left = Vec::new();
        for name in firsts.filter(|name| !retired.contains(*name)) {
            match claims_of(self.inspect, name).await? {
                0 => {}
                claims => left.push((name, claims)),
            }
        }
        Ok(left)
    }

    /// What keeps an operation as it is.
    fn rests(&self, claims: u64, on: &str) -> Option<String> {
        match self.elsewhere {
            _ if claims > 0 => Some(format!("claims rest on {on} (claims: {claims})")),
            Elsewhere::Nothing => None,
            Elsewhere::Requests => Some("this process serves it".into()),
            Elsewhere::Processes => Some("another process is there, and may serve it".into()),
        }
    }

    fn remedy(&self, claims: u64) -> String {
        match self.elsewhere {
            _ if claims > 0 => format!("undo the change until they have ended; or {NEW_KEYS}"),
            Elsewhere::Processes => format!("undo the change; or stop them first; or {NEW_KEYS}"),
            _ => format!("undo the change; or restart with it while no other process serves; or {NEW_KEYS}"),
        }
    }
}

/// A field that is not as it is kept, and the claims that would not be found any more.
struct Change {
    what: String,
    among: Filter,
}

impl Change {
    /// One that all claims of the operation would not be found after.
    fn of_all(what: String) -> Self {
        Change { what, among: Filter::default() }
    }
}

/// The fields that are not as they are kept.
fn changes(kept: &Name, asked: &IdentifiedBy) -> Vec<Change> {
    let Name::First { width, level, source, derived, public, assumed } = kept else { return Vec::new() };
    let mut changes = Vec::new();
    if *width != asked.width {
        let (kept, asked) = (width.as_str(), asked.width.as_str());
        changes.push(Change::of_all(format!("`scope` (from {kept:?} to {asked:?})")));
    }
    if let Some(level) = level.filter(|level| *level != asked.level) {
        let (kept, asked) = (level_word(level), level_word(asked.level));
        changes.push(Change::of_all(format!("`level` (from {kept:?} to {asked:?})")));
    }
    if *source != asked.source {
        let (kept, asked) = (source.as_str(), asked.source.as_str());
        let what = format!("`policy`, which says where keys come from ({kept:?}, now {asked:?}),");
        changes.push(Change::of_all(what));
    }
    if derived.zip(asked.derived).is_some_and(|(kept, asked)| kept != asked) {
        changes.push(Change::of_all("`fingerprint`, which is the key because of `key_from`,".to_owned()));
    }
    changes.extend(whose(*public, assumed, asked));
    changes
}

/// Whose a request is: what the edge says for callers whose credentials do not, or are not looked at (A2).
fn whose(public: Option<bool>, assumed: &Fixed, asked: &IdentifiedBy) -> Vec<Change> {
    let mut changes = Vec::new();
    match public {
        Some(true) if !asked.public => {
            changes.push(Change::of_all("`public`, by which all callers were one,".to_owned()));
        }
        Some(false) if asked.public => {
            changes.push(Change::of_all("`public`, by which all callers are one,".to_owned()));
        }
        _ => {}
    }
    let tenant = assumed.tenant.as_ref();
    if let Some((kept, asked)) =
        tenant.zip(asked.assumed.tenant.as_ref()).filter(|(kept, asked)| kept != asked)
    {
        changes.push(Change {
            what: format!("`tenant` of [auth] (from {:?} to {:?})", kept.as_str(), asked.as_str()),
            among: Filter { tenant: Some(kept.as_str().to_owned()), ..Filter::default() },
        });
    }
    let project = assumed.project.as_ref().zip(asked.assumed.project.as_ref());
    if let Some((kept, asked)) = project.filter(|(kept, asked)| kept != asked) {
        changes.push(Change {
            what: format!("`project` of [auth] (from {:?} to {:?})", kept.as_str(), asked.as_str()),
            among: Filter {
                tenant: tenant.map(|tenant| tenant.as_str().to_owned()),
                project: Some(kept.as_str().to_owned()),
                ..Filter::default()
            },
        });
    }
    changes
}

/// What is kept from now on. What claims may rest on is kept although it does not hold any more: a recipe that keys were derived by,
/// and whose requests were.
fn merged(kept: &Name, asked: IdentifiedBy) -> Name {
    let (kept_recipe, kept_for) = match kept {
        Name::First { derived, assumed, .. } => (*derived, assumed.clone()),
        Name::Later(_) => (None, Fixed::default()),
    };
    let IdentifiedBy { width, level, source, derived, public, assumed } = asked;
    Name::First {
        width,
        level: Some(level),
        source,
        derived: derived.or(kept_recipe),
        public: Some(public),
        assumed: Fixed {
            tenant: assumed.tenant.or(kept_for.tenant),
            project: assumed.project.or(kept_for.project),
        },
    }
}
