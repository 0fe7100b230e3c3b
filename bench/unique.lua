-- Send a different URI in every request: the template's twelve zeros become a running number.
-- Arguments: path, file with the body template, file with the token (or an empty name), first number,
-- milliseconds that a connection pauses before each request.
-- The head is built once, and the body is joined from ready pieces, so that the load costs the machine little.

local pieces, head, counter, pause

local function read(name)
  local file = assert(io.open(name, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

function init(args)
  local path, template, token = args[1], read(args[2]), args[3]
  counter, pause = tonumber(args[4]), tonumber(args[5])
  if pause > 0 then
    delay = function() return pause end
  end
  local lines = {
    "POST " .. path .. " HTTP/1.1",
    "Host: " .. wrk.host .. ":" .. wrk.port,
    "Content-Type: application/json",
    "Accept-Encoding: gzip",
    "User-Agent: Apache-HttpClient/5.5 (Java/17.0.15)",
    "Content-Length: " .. #template,
  }
  if token ~= "" then
    lines[#lines + 1] = "Authorization: Bearer " .. read(token)
  end
  head = table.concat(lines, "\r\n") .. "\r\n\r\n"
  pieces = {}
  local from = 1
  while true do
    local at = template:find("000000000000", from, true)
    if not at then break end
    pieces[#pieces + 1] = template:sub(from, at - 1)
    from = at + 12
  end
  pieces[#pieces + 1] = template:sub(from)
  pieces[1] = head .. pieces[1]
end

function request()
  counter = counter + 1
  return table.concat(pieces, string.format("%012d", counter))
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"microseconds":%d,"not_200":%d,"broken":%d,"p50":%.1f,"p99":%.1f}\n',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
