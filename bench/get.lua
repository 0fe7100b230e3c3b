-- Send one and the same GET as fast as answers come.
-- Arguments: path, (a file that is not read), file with the token.

local text

function init(args)
  local file = assert(io.open(args[3], "rb"))
  local token = file:read("*a")
  file:close()
  text = table.concat({
    "GET " .. args[1] .. " HTTP/1.1",
    "Host: " .. wrk.host .. ":" .. wrk.port,
    "Accept: application/json",
    "X-Iceberg-Access-Delegation: remote-signing",
    "X-Client-Version: Apache Iceberg 1.12.0",
    "User-Agent: Apache-HttpClient/5.5 (Java/17.0.15)",
    "Authorization: Bearer " .. token,
  }, "\r\n") .. "\r\n\r\n"
end

function request()
  return text
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"microseconds":%d,"not_200":%d,"broken":%d,"p50":%.1f,"p99":%.1f}\n',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
