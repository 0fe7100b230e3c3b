// Uses AWS SDK for JavaScript v3: one JSON document on standard input, one JSON line for each step on standard output.

import { readFileSync } from "node:fs";
import { Readable } from "node:stream";
import * as s3 from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";

const asked = JSON.parse(readFileSync(0, "utf8"));
const bucket = asked.bucket;
const options = {
  endpoint: asked.origin,
  region: asked.region,
  forcePathStyle: true,
  maxAttempts: 1,
  credentials: {
    accessKeyId: asked.access_key,
    secretAccessKey: asked.secret,
    ...(asked.session_token ? { sessionToken: asked.session_token } : {}),
  },
};
const client = new s3.S3Client(options);
const send = (command, input) => client.send(new s3[`${command}Command`]({ Bucket: bucket, ...input }));

const step = async (name, action) => {
  let told;
  try {
    told = { step: name, value: (await action()) ?? null };
  } catch (error) {
    told = { step: name, error: error.name || "refused", status: error.$metadata?.httpStatusCode ?? 0 };
    if (!error.$metadata) {
      told.text = String(error.message);
    }
  }
  process.stdout.write(`${JSON.stringify(told)}\n`);
};

const text = async (answer) => await answer.Body.transformToString();
const keysOf = (answer) => (answer.Contents ?? []).map((each) => [each.Key, each.Size]);
const large = Buffer.alloc(6 * 1024 * 1024 + 17, "large-");

// What was written is looked at before it is deleted: each phase is a run of its own.
if (asked.phase === "clean-up") {
  await step("DeleteObject", async () => {
    await send("DeleteObject", { Key: "copied" });
  });
  await step("DeleteObjects", async () => {
    const every = keysOf(await send("ListObjectsV2", {})).map(([Key]) => ({ Key }));
    const answer = await send("DeleteObjects", { Delete: { Objects: every } });
    return [answer.Deleted.map((each) => each.Key).sort(), answer.Errors ?? []];
  });
  await step("nothing is left", async () => keysOf(await send("ListObjectsV2", {})));
  process.exit(0);
}

for (const name of asked.names) {
  await step(`PutObject ${name}`, async () => {
    const answer = await send("PutObject", { Key: name, Body: name, ContentType: "text/plain", Metadata: { a: "b c" } });
    return [answer.ETag, answer.ChecksumCRC32, answer.ChecksumType];
  });
  await step(`HeadObject ${name}`, async () => {
    const answer = await send("HeadObject", { Key: name, ChecksumMode: "ENABLED" });
    return [answer.ContentLength, answer.ContentType, answer.Metadata, answer.ETag, answer.ChecksumCRC32];
  });
  await step(`GetObject ${name}`, async () => text(await send("GetObject", { Key: name })));
}
await step("PutObject of nothing", async () => (await send("PutObject", { Key: "empty", Body: "" })).ETag);
await step("PutObject of a stream", async () => {
  const answer = await send("PutObject", { Key: "stream", Body: Readable.from([large]), ContentLength: large.length });
  return answer.ETag;
});
for (const algorithm of ["CRC32", "CRC32C", "SHA1", "SHA256"]) {
  await step(`PutObject ${algorithm}`, async () => {
    const answer = await send("PutObject", { Key: "checked", Body: "checked", ChecksumAlgorithm: algorithm });
    return [answer.ETag, answer[`Checksum${algorithm}`]];
  });
  await step(`PutObject with a wrong ${algorithm}`, async () => {
    const wrong = { [`Checksum${algorithm}`]: { CRC32: "AAAAAA==", CRC32C: "AAAAAA==", SHA1: "2jmj7l5rSw0yVb/vlWAYkK/YBwk=", SHA256: "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=" }[algorithm] };
    await send("PutObject", { Key: "wrong", Body: "checked", ...wrong });
  });
}
await step("PutObject if none matches", async () => {
  await send("PutObject", { Key: "checked", Body: "again", IfNoneMatch: "*" });
});
await step("GetObject range", async () => {
  const answer = await send("GetObject", { Key: "stream", Range: "bytes=3-9" });
  return [await text(answer), answer.ContentRange];
});
await step("GetObject suffix", async () => text(await send("GetObject", { Key: "stream", Range: "bytes=-4" })));
await step("GetObject past the end", async () => send("GetObject", { Key: "stream", Range: "bytes=999999999-" }));
await step("GetObject missing", async () => text(await send("GetObject", { Key: "missing" })));
await step("HeadObject missing", async () => send("HeadObject", { Key: "missing" }));
await step("GetObject unchanged", async () => {
  const { ETag } = await send("HeadObject", { Key: "stream" });
  await send("GetObject", { Key: "stream", IfNoneMatch: ETag });
});
await step("GetObject overridden", async () => {
  const answer = await send("GetObject", { Key: "checked", ResponseContentType: "text/x", ResponseCacheControl: "no-store" });
  return [answer.ContentType, answer.CacheControl];
});
await step("CopyObject", async () => {
  const answer = await send("CopyObject", { Key: "copied", CopySource: `${bucket}/stream` });
  return answer.CopyObjectResult.ETag;
});
await step("ListObjectsV2", async () => keysOf(await send("ListObjectsV2", {})));
await step("ListObjectsV2 in pages", async () => {
  const found = [];
  for await (const page of s3.paginateListObjectsV2({ client, pageSize: 2 }, { Bucket: bucket })) {
    found.push(keysOf(page).length);
  }
  return found;
});
await step("ListObjectsV2 folders", async () => {
  const answer = await send("ListObjectsV2", { Delimiter: "/", Prefix: "" });
  return [keysOf(answer).length, (answer.CommonPrefixes ?? []).map((each) => each.Prefix)];
});
await step("ListObjects", async () => keysOf(await send("ListObjects", { MaxKeys: 3 })));
await step("HeadBucket", async () => {
  await send("HeadBucket", {});
});
await step("GetBucketLocation", async () => (await send("GetBucketLocation", {})).LocationConstraint ?? "");
await step("ListBuckets", async () => {
  const answer = await client.send(new s3.ListBucketsCommand({}));
  const mine = answer.Buckets.find((each) => each.Name === bucket);
  return [mine !== undefined, Math.abs(Date.now() - mine.CreationDate) < 3600_000];
});
await step("lib-storage small", async () => {
  const answer = await new Upload({ client, params: { Bucket: bucket, Key: "up/small", Body: "small" } }).done();
  return answer.ETag;
});
await step("lib-storage in parts", async () => {
  const body = Readable.from([large, large]);
  const upload = new Upload({ client, queueSize: 3, partSize: 5 * 1024 * 1024, params: { Bucket: bucket, Key: "up/large", Body: body } });
  return (await upload.done()).ETag;
});
await step("lib-storage, read back", async () => {
  const bytes = await (await send("GetObject", { Key: "up/large" })).Body.transformToByteArray();
  return [bytes.length, Buffer.from(bytes.subarray(large.length, large.length + 12)).toString()];
});
await step("lib-storage, ended in its middle", async () => {
  const upload = new Upload({ client, params: { Bucket: bucket, Key: "up/ended", Body: Readable.from([large, large]) } });
  upload.on("httpUploadProgress", () => upload.abort());
  await upload.done();
});
await step("no upload is left", async () => {
  // Whether the library still ends its upload depends on what was under way; it may do so between list and abort, and
  // a part that arrives meanwhile keeps the store from ending it.
  let left = [];
  for (let tries = 0; tries < 50; tries += 1) {
    left = (await send("ListMultipartUploads", {})).Uploads ?? [];
    if (left.length === 0 && tries > 0) break;
    for (const { Key, UploadId } of left) {
      await send("AbortMultipartUpload", { Key, UploadId }).catch(() => {});
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return left.length;
});
const parts = [];
await step("parts by hand", async () => {
  const { UploadId } = await send("CreateMultipartUpload", { Key: "parts" });
  for (const [number, body] of [large, Buffer.from("end")].entries()) {
    const { ETag } = await send("UploadPart", { Key: "parts", UploadId, PartNumber: number + 1, Body: body });
    parts.push({ ETag, PartNumber: number + 1 });
  }
  const listed = await send("ListParts", { Key: "parts", UploadId });
  const done = await send("CompleteMultipartUpload", { Key: "parts", UploadId, MultipartUpload: { Parts: parts } });
  return [listed.Parts.map((each) => each.Size), done.ETag];
});
await step("a part copied", async () => {
  const { UploadId } = await send("CreateMultipartUpload", { Key: "part-copied" });
  const source = { CopySource: `${bucket}/stream`, CopySourceRange: "bytes=0-99" };
  const { CopyPartResult } = await send("UploadPartCopy", { Key: "part-copied", UploadId, PartNumber: 1, ...source });
  await send("AbortMultipartUpload", { Key: "part-copied", UploadId });
  return CopyPartResult.ETag;
});
await step("tags", async () => {
  await send("PutObjectTagging", { Key: "checked", Tagging: { TagSet: [{ Key: "k", Value: "v w" }] } });
  return (await send("GetObjectTagging", { Key: "checked" })).TagSet;
});

// What a browser does with an URL: no header that the URL did not say.
const presigned = async (command, input, request = {}, more = {}) => {
  const url = await getSignedUrl(client, new s3[`${command}Command`]({ Bucket: bucket, ...input }), { expiresIn: 60, ...more });
  const answer = await fetch(url, request);
  const body = await answer.text();
  if (!answer.ok) {
    throw Object.assign(new Error(body), { name: /<Code>([^<]*)/.exec(body)?.[1] ?? "", $metadata: { httpStatusCode: answer.status } });
  }
  return [answer.status, body];
};
await step("presigned PUT", () => presigned("PutObject", { Key: "presigned" }, { method: "PUT", body: "by URL" }));
await step("presigned PUT, read", async () => text(await send("GetObject", { Key: "presigned" })));
await step("presigned PUT with type", () =>
  presigned("PutObject", { Key: "typed", ContentType: "text/x" }, { method: "PUT", body: "typed", headers: { "Content-Type": "text/x" } }));
await step("presigned PUT of nothing", () => presigned("PutObject", { Key: "nothing" }, { method: "PUT", body: "" }));
await step("presigned GET", () => presigned("GetObject", { Key: "presigned" }));
await step("presigned GET range", () => presigned("GetObject", { Key: "presigned" }, { headers: { Range: "bytes=0-1" } }));
await step("presigned GET overridden", () => presigned("GetObject", { Key: "presigned", ResponseContentType: "text/y" }));
await step("presigned HEAD", () => presigned("HeadObject", { Key: "presigned" }, { method: "HEAD" }));
await step("presigned DELETE", () => presigned("DeleteObject", { Key: "presigned" }, { method: "DELETE" }));
await step("presigned GET missing", () => presigned("GetObject", { Key: "missing" }));
await step("presigned list", async () => {
  const [status, body] = await presigned("ListObjectsV2", { Prefix: "up/" });
  return [status, [...body.matchAll(/<Key>([^<]*)/g)].map((each) => each[1])];
});
await step("presigned part", async () => {
  const { UploadId } = await send("CreateMultipartUpload", { Key: "part" });
  const answer = await presigned("UploadPart", { Key: "part", UploadId, PartNumber: 1 }, { method: "PUT", body: "part" });
  await send("AbortMultipartUpload", { Key: "part", UploadId });
  return answer;
});
// The stream of the upload that was ended would keep the process.
process.exit(0);
