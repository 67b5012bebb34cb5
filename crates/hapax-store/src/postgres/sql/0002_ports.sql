-- Journals (J2), lanes (X3) and the registry. None of them has to be fast.

CREATE TABLE hapax.streams (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    version    bigint NOT NULL,
    length     bigint NOT NULL,
    hash       bytea,
    status     text NOT NULL,
    checkpoint bytea NOT NULL
);

CREATE TABLE hapax.events (
    stream  bigint NOT NULL,
    seq     bigint NOT NULL,
    kind    text NOT NULL,
    at      bigint NOT NULL,
    payload bytea NOT NULL,
    hash    bytea NOT NULL,
    chain   integer NOT NULL,
    PRIMARY KEY (stream, seq)
);

CREATE TABLE hapax.lanes (
    tenant    text NOT NULL,
    project   text NOT NULL,
    entity    bytea NOT NULL,
    tickets   uuid[] NOT NULL DEFAULT '{}',
    sessions  bigint[] NOT NULL DEFAULT '{}',
    closed_by bytea,
    PRIMARY KEY (tenant, project, entity)
);

CREATE TABLE hapax.documents (
    kind       text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    updated_at bigint NOT NULL,
    body       bytea NOT NULL,
    PRIMARY KEY (kind, id)
);
